// A rank's part of a GPU: its stream, on which all of its kernels and copies run in order, and what these share.
// Several ranks may have contexts on one GPU; their streams wait for each other at events only.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include <cuda_runtime.h>

#include "framework/backends/cuda/device/host_moves.h"
#include "framework/backends/cuda/device/staging.h"
#include "framework/backends/cuda_events.h"
#include "framework/error.h"

namespace heddle::cuda {

class Convolutions;
class CublasProducts;

/// The first index of a call that is outside its rows. The cpu throws at once; a kernel leaves the index here, in host
/// memory that the GPU writes, and the host throws when it next waits for the stream.
struct Fault {
  enum class Of : int { nothing, gather, scatter, label, class_rows, ascending_class_rows };
  Of of = Of::nothing;
  std::int64_t position = 0;
  std::int64_t index = 0;
  std::int64_t rows = 0;
};

class Context {
 public:
  /// Scratch for kernels that hand sums to each other. Not metered: the same for every rank.
  static constexpr std::int64_t scratch_bytes = std::int64_t{8} << 20;

  /// Opens the GPU with this number; InputError without such a GPU, or with a driver that is too old for the program.
  Context(int gpu, bool tf32);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  cudaStream_t stream() const { return stream_; }
  /// The memory pool of the GPU: what one rank has freed another may allocate.
  cudaMemPool_t pool() const { return pool_; }
  /// Whether f32 is multiplied on tensor cores.
  bool uses_tf32() const { return uses_tf32_; }
  /// Makes this GPU the calling thread's current device.
  void enter() const;

  /// Memory that the kernels of one call share; those of the next call use it anew.
  template <class T>
  T* scratch(std::int64_t count) const {
    if (count * static_cast<std::int64_t>(sizeof(T)) > scratch_bytes)
      fail("cuda: a kernel asks for more than the {} bytes of scratch", scratch_bytes);
    return static_cast<T*>(scratch_);
  }
  Fault* fault() const { return fault_; }
  Staging& staging() { return *staging_; }
  HostMoves& moves() { return *moves_; }
  Events& events() { return *events_; }
  /// What the libraries have made for this rank so far.
  CublasProducts& products() { return *products_; }
  Convolutions& convolutions() { return *convolutions_; }

  /// The host waits for the stream; throws if an index was outside its rows, and names the first one.
  void synchronize();

 private:
  void release();

  int gpu_;
  bool uses_tf32_;
  cudaStream_t stream_ = nullptr;
  cudaMemPool_t pool_ = nullptr;
  void* scratch_ = nullptr;
  Fault* fault_ = nullptr;
  std::shared_ptr<Events> events_ = std::make_shared<Events>();
  std::unique_ptr<Staging> staging_;
  std::unique_ptr<HostMoves> moves_;
  std::unique_ptr<CublasProducts> products_;
  std::unique_ptr<Convolutions> convolutions_;
};

}  // namespace heddle::cuda

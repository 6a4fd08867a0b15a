// Page-locked memory through which data of the host, above all images and labels, reaches the GPU: the host goes on,
// and may change its own memory, while the GPU still computes what was issued before.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <span>

#include <cuda_runtime.h>

#include "framework/backends/cuda_events.h"

namespace heddle::cuda {

class Staging {
 public:
  /// The ring is allocated at the first copy and grows up to this size, which holds 400 images of 3 x 112 x 112 in f32:
  /// locking a MiB takes half a millisecond. Not metered: the same for every rank.
  static constexpr std::size_t min_ring_bytes = std::size_t{1} << 20;
  static constexpr std::size_t max_ring_bytes = std::size_t{64} << 20;
  static constexpr std::size_t max_piece = std::size_t{4} << 20;

  Staging(cudaStream_t stream, Events& events) : stream_(stream), events_(events) {}
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /// Copies in the order of the stream. Waits only if more is on its way than the ring holds.
  void copy(void* device, std::span<const std::byte> host);

 private:
  struct Piece {
    std::size_t begin;
    std::size_t end;
    std::shared_ptr<const Event> is_read;
  };
  /// Where this many bytes may be written; waits until the GPU has read what was there.
  std::size_t place_for(std::size_t bytes);
  std::size_t next_place(std::size_t bytes) const { return next_ + bytes <= ring_bytes_ ? next_ : 0; }
  bool is_taken(std::size_t begin, std::size_t bytes) const;
  void grow(std::size_t bytes);
  void wait_for_oldest();

  cudaStream_t stream_;
  Events& events_;
  void* ring_ = nullptr;
  std::size_t ring_bytes_ = 0;
  std::size_t next_ = 0;
  std::deque<Piece> under_way_;
};

}  // namespace heddle::cuda

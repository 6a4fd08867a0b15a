// Page-locked memory through which what the host has, images and labels above all, reaches the GPU: the host goes on,
// and may change its own memory, while the GPU still computes what was issued before.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include <cuda_runtime.h>

namespace heddle::cuda {

class Staging {
 public:
  static constexpr std::size_t slot_bytes = std::size_t{4} << 20;

  explicit Staging(cudaStream_t stream) : stream_(stream) {}
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /// In the stream's order. Waits only where more is on its way already than the slots hold.
  void copy(void* device, std::span<const std::byte> host);

 private:
  struct Slot {
    void* memory = nullptr;
    cudaEvent_t is_read = nullptr;
  };
  /// The one that was used longest ago, once the GPU has read it.
  Slot& next_slot();

  cudaStream_t stream_;
  std::array<Slot, 2> slots_;  // from their first use on
  std::size_t next_ = 0;
};

}  // namespace heddle::cuda

#include "framework/backends/cuda/staging.h"

#include <algorithm>
#include <cstring>

#include "framework/backends/cuda/context.h"

namespace heddle::cuda {

Staging::~Staging() {
  for (const Slot& slot : slots_) {
    if (slot.is_read != nullptr) (void)cudaEventDestroy(slot.is_read);
    if (slot.memory != nullptr) (void)cudaFreeHost(slot.memory);
  }
}

Staging::Slot& Staging::next_slot() {
  Slot& slot = slots_[next_];
  next_ = (next_ + 1) % slots_.size();
  if (slot.memory == nullptr) check(cudaHostAlloc(&slot.memory, slot_bytes, cudaHostAllocDefault), "cudaHostAlloc");
  if (slot.is_read == nullptr)
    check(cudaEventCreateWithFlags(&slot.is_read, cudaEventDisableTiming), "cudaEventCreate");
  else
    check(cudaEventSynchronize(slot.is_read), "cudaEventSynchronize");
  return slot;
}

void Staging::copy(void* device, std::span<const std::byte> host) {
  for (std::size_t at = 0; at < host.size(); at += slot_bytes) {
    const std::size_t bytes = std::min(slot_bytes, host.size() - at);
    const Slot& slot = next_slot();
    std::memcpy(slot.memory, host.data() + at, bytes);
    check(cudaMemcpyAsync(static_cast<std::byte*>(device) + at, slot.memory, bytes, cudaMemcpyHostToDevice, stream_),
          "cudaMemcpyAsync");
    check(cudaEventRecord(slot.is_read, stream_), "cudaEventRecord");
  }
}

}  // namespace heddle::cuda

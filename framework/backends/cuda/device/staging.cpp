#include "framework/backends/cuda/device/staging.h"

#include <algorithm>
#include <cstring>

#include "framework/backends/cuda/context.h"

namespace heddle::cuda {

Staging::~Staging() {
  if (ring_ != nullptr) (void)cudaFreeHost(ring_);
}

std::size_t Staging::place_for(std::size_t bytes) {
  const std::size_t begin = next_ + bytes <= ring_bytes ? next_ : 0;
  const auto is_in_the_way = [&](const Piece& piece) { return piece.begin < begin + bytes && begin < piece.end; };
  // The oldest is read first.
  while (std::any_of(under_way_.begin(), under_way_.end(), is_in_the_way)) {
    check(cudaEventSynchronize(under_way_.front().is_read->get()), "cudaEventSynchronize");
    under_way_.pop_front();
  }
  next_ = begin + bytes;
  return begin;
}

void Staging::copy(void* device, std::span<const std::byte> host) {
  if (ring_ == nullptr) check(cudaHostAlloc(&ring_, ring_bytes, cudaHostAllocDefault), "cudaHostAlloc");
  for (std::size_t at = 0; at < host.size(); at += max_piece) {
    const std::size_t bytes = std::min(max_piece, host.size() - at);
    const std::size_t begin = place_for(bytes);
    void* const piece = static_cast<std::byte*>(ring_) + begin;
    std::memcpy(piece, host.data() + at, bytes);
    check(cudaMemcpyAsync(static_cast<std::byte*>(device) + at, piece, bytes, cudaMemcpyHostToDevice, stream_),
          "cudaMemcpyAsync");
    under_way_.push_back({begin, begin + bytes, events_.record(stream_)});
  }
}

}  // namespace heddle::cuda

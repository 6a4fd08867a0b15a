#include "framework/backends/cuda/device/staging.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "framework/backends/cuda/context.h"

namespace heddle::cuda {

Staging::~Staging() {
  if (ring_ != nullptr) (void)cudaFreeHost(ring_);
}

std::size_t Staging::place_for(std::size_t bytes) {
  if (bytes > ring_bytes_ || (ring_bytes_ < max_ring_bytes && is_taken(next_place(bytes), bytes))) grow(bytes);
  const std::size_t begin = next_place(bytes);
  while (is_taken(begin, bytes)) wait_for_oldest();
  next_ = begin + bytes;
  return begin;
}

bool Staging::is_taken(std::size_t begin, std::size_t bytes) const {
  return std::any_of(under_way_.begin(), under_way_.end(),
                     [&](const Piece& piece) { return piece.begin < begin + bytes && begin < piece.end; });
}

void Staging::grow(std::size_t bytes) {
  while (!under_way_.empty()) wait_for_oldest();
  constexpr std::size_t factor = 4;
  const std::size_t wanted = std::clamp(std::max(factor * ring_bytes_, bytes), min_ring_bytes, max_ring_bytes);
  ring_bytes_ = next_ = 0;
  if (ring_ != nullptr) check(cudaFreeHost(std::exchange(ring_, nullptr)), "cudaFreeHost");
  check(cudaHostAlloc(&ring_, wanted, cudaHostAllocDefault), "cudaHostAlloc");
  ring_bytes_ = wanted;
}

void Staging::wait_for_oldest() {
  check(cudaEventSynchronize(under_way_.front().is_read->get()), "cudaEventSynchronize");
  under_way_.pop_front();
}

void Staging::copy(void* device, std::span<const std::byte> host) {
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

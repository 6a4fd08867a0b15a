// Moves elements between the GPU and page-locked memory of the host on a stream of their own, beside the kernels: what
// is offloaded from one pipeline action to a later one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>

#include <cuda_runtime.h>

#include "framework/backends/cuda_events.h"

namespace heddle::cuda {

class HostMoves {
 public:
  /// The stream of the kernels, and the pool of their memory. Nothing is allocated until something moves.
  HostMoves(cudaStream_t kernels, cudaMemPool_t pool, Events& events)
      : kernels_(kernels), pool_(pool), events_(events) {}
  ~HostMoves();
  HostMoves(const HostMoves&) = delete;
  HostMoves& operator=(const HostMoves&) = delete;

  /// Locking pages takes longer than copying them: what is deallocated is kept for the next buffer of its size. The
  /// next move into it is behind those that read it, because moves run in order.
  std::byte* allocate_host(std::int64_t bytes);
  void deallocate_host(std::byte* host, std::int64_t bytes) { spare_.emplace(bytes, host); }

  /// Each begins after everything that the kernels' stream was given.
  void out(void* device, std::span<std::byte> host);
  void* back(std::span<const std::byte> host);
  /// Behind all moves.
  std::shared_ptr<const Event> mark() { return events_.record(stream()); }

 private:
  cudaStream_t stream();
  void wait_for_kernels();

  cudaStream_t kernels_;
  cudaMemPool_t pool_;
  Events& events_;
  cudaStream_t stream_ = nullptr;
  std::multimap<std::int64_t, std::byte*> spare_;
};

}  // namespace heddle::cuda

#include "framework/backends/cuda/device/host_moves.h"

#include <algorithm>

namespace heddle::cuda {

HostMoves::~HostMoves() {
  if (stream_ != nullptr) {
    (void)cudaStreamSynchronize(stream_);
    (void)cudaStreamDestroy(stream_);
  }
  for (const auto& [bytes, host] : spare_) (void)cudaFreeHost(host);
}

cudaStream_t HostMoves::stream() {
  if (stream_ == nullptr) check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
  return stream_;
}

void HostMoves::wait_for_kernels() {
  check(cudaStreamWaitEvent(stream(), events_.record(kernels_)->get(), 0), "cudaStreamWaitEvent");
}

std::byte* HostMoves::allocate_host(std::int64_t bytes) {
  if (auto spare = spare_.extract(bytes)) return spare.mapped();
  void* host = nullptr;
  check(cudaHostAlloc(&host, static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1)), cudaHostAllocDefault),
        "cudaHostAlloc");
  return static_cast<std::byte*>(host);
}

void HostMoves::out(void* device, std::span<std::byte> host) {
  wait_for_kernels();
  if (!host.empty())
    check(cudaMemcpyAsync(host.data(), device, host.size(), cudaMemcpyDeviceToHost, stream()), "cudaMemcpyAsync");
  check(cudaFreeAsync(device, stream()), "cudaFreeAsync");
}

void* HostMoves::back(std::span<const std::byte> host) {
  wait_for_kernels();
  void* device = nullptr;
  check(cudaMallocFromPoolAsync(&device, std::max<std::size_t>(host.size(), 1), pool_, stream()),
        "cudaMallocFromPoolAsync");
  if (!host.empty())
    check(cudaMemcpyAsync(device, host.data(), host.size(), cudaMemcpyHostToDevice, stream()), "cudaMemcpyAsync");
  return device;
}

}  // namespace heddle::cuda

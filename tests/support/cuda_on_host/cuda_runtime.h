// The part of CUDA's runtime that the cuda backend uses, on a machine without a GPU: memory is the host's, streams do
// their work as late as they may (streams.cpp), and a kernel's threads run one after the other on one thread of the
// host, each until the next barrier of its block. Launches the backend's own kernels, as the compiler of host code
// makes them; so every test of a backend with data also tests theirs, but for what only a GPU does: what NVIDIA's
// compiler makes of them, races between warps, and time.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <tuple>

#define __host__
#define __device__
#define __global__
#define __launch_bounds__(...)
#define __grid_constant__
#define __shared__ static thread_local  // of the block that the calling thread runs

struct dim3 {
  unsigned x = 1;
  unsigned y = 1;
  unsigned z = 1;
  constexpr dim3(unsigned x_size = 1, unsigned y_size = 1, unsigned z_size = 1) : x(x_size), y(y_size), z(z_size) {}
};
inline thread_local dim3 gridDim;
inline thread_local dim3 blockDim;
inline thread_local dim3 blockIdx;
inline thread_local dim3 threadIdx;
void __syncthreads();
/// All threads of the block call it, and not only those of a warp.
template <class T>
T __shfl_xor_sync(unsigned /*mask*/, T value, int lane_mask) {
  static thread_local T given[1024];
  given[threadIdx.x] = value;
  __syncthreads();
  const T taken = given[threadIdx.x ^ static_cast<unsigned>(lane_mask)];
  __syncthreads();
  return taken;
}

/// A product that the compiler does not contract with the sum that it is part of.
inline float __fmul_rn(float x, float y) {
  volatile const float product = x * y;
  return product;
}
inline double __dmul_rn(double x, double y) {
  volatile const double product = x * y;
  return product;
}

// Types have the names that the toolkit gives them, so that the symbols of functions that take them are equal.
enum cudaError {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100,
};
using cudaError_t = cudaError;
const char* cudaGetErrorString(cudaError_t error);
const char* cudaGetErrorName(cudaError_t error);
inline cudaError_t cudaGetLastError() {
  return cudaSuccess;
}

#define CUDART_VERSION 13000
cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaRuntimeGetVersion(int* version);
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaSetDevice(int device);

using cudaStream_t = struct CUstream_st*;
constexpr unsigned cudaStreamNonBlocking = 1;
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);

using cudaEvent_t = struct CUevent_st*;
constexpr unsigned cudaEventDisableTiming = 2;
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);

/// Queues work, which runs in the stream's order when the host waits for the stream, or for another one that waits for
/// an event behind it.
void put_on(cudaStream_t stream, std::function<void()> work);

/// What was called so far, by all threads.
struct CallsOnHost {
  /// Calls that hold up, or may hold up, everything on the device: allocating or freeing memory other than in a
  /// stream's order, opening libraries, work on the stream null.
  std::int64_t device_wide = 0;
  /// Waits of the host for one stream or event.
  std::int64_t waits = 0;
  /// Launches of the backend's own kernels.
  std::int64_t kernels = 0;
  /// Calls of cuBLASLt and cuDNN that compute.
  std::int64_t products = 0;
  std::int64_t convolutions = 0;
  /// Copies and fills of memory, and their bytes.
  std::int64_t copies = 0;
  std::int64_t copied_bytes = 0;
  /// Ranges of NVTX.
  std::int64_t ranges_begun = 0;
  std::int64_t ranges_ended = 0;
};
CallsOnHost operator-(const CallsOnHost& a, const CallsOnHost& b);
/// The calls of one of `parts` equal parts.
CallsOnHost operator/(const CallsOnHost& a, std::int64_t parts);
CallsOnHost calls_on_host();
void count_call(std::int64_t CallsOnHost::*kind, std::int64_t by = 1);
/// Runs all work that was queued on all streams.
void synchronize_device();

using cudaMemPool_t = struct PoolOnHost*;
enum cudaMemPoolAttr { cudaMemPoolAttrReleaseThreshold = 4, cudaMemPoolAttrReservedMemCurrent = 5 };
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device);
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value);
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value);
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, std::size_t bytes);
/// The memory is filled with NaN, now and when it is freed, so that reads before it is written, or after it is freed,
/// are detected.
cudaError_t cudaMallocFromPoolAsync(void** address, std::size_t bytes, cudaMemPool_t pool, cudaStream_t stream);
cudaError_t cudaFreeAsync(void* address, cudaStream_t stream);
cudaError_t cudaMalloc(void** address, std::size_t bytes);
cudaError_t cudaFree(void* address);
constexpr unsigned cudaHostAllocDefault = 0;
constexpr unsigned cudaHostAllocMapped = 2;
cudaError_t cudaHostAlloc(void** address, std::size_t bytes, unsigned flags);
cudaError_t cudaFreeHost(void* address);

enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2, cudaMemcpyDeviceToDevice = 3 };
/// In the stream's order, as the host's memory that the backend hands over is page-locked or waited for.
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemsetAsync(void* address, int value, std::size_t bytes, cudaStream_t stream);

struct cudaLaunchConfig_t {
  dim3 gridDim;
  dim3 blockDim;
  std::size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
};
/// Runs the thread function of every thread of every block.
void run_on_host(const cudaLaunchConfig_t& config, const std::function<void()>& thread);
template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  count_call(&CallsOnHost::kernels);
  put_on(config->stream,
         [config = *config, kernel, values = std::tuple<Parameters...>(static_cast<Parameters>(arguments)...)] {
           run_on_host(config, [&] { std::apply(kernel, values); });
         });
  return cudaSuccess;
}

/// All threads of the block call it, too.
inline unsigned __ballot_sync(unsigned /*mask*/, bool is_set) {
  static thread_local bool given[1024];
  given[threadIdx.x] = is_set;
  __syncthreads();
  unsigned bits = 0;
  for (unsigned lane = 0; lane < 32; ++lane)
    if (given[threadIdx.x / 32 * 32 + lane]) bits |= 1U << lane;
  __syncthreads();
  return bits;
}
inline int __ffs(int bits) {
  return bits == 0 ? 0 : std::countr_zero(static_cast<unsigned>(bits)) + 1;
}

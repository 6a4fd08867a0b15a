#include "framework/backends/cuda/context.h"

#include <limits>
#include <string>
#include <utility>

#include "framework/backends/cuda/convolution/convolutions.h"
#include "framework/backends/cuda/linear_algebra/cublas_products.h"

namespace heddle::cuda {

namespace {

/// `13.0` for 13000.
std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

void check_gpu(int gpu) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  int driver = 0;
  int runtime = 0;
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  if (status == cudaErrorInsufficientDriver && driver > 0)
    fail<InputError>("device cuda: the NVIDIA driver knows CUDA {}, this program needs {}", version_text(driver),
                     version_text(runtime));
  if (status == cudaErrorNoDevice || status == cudaErrorInsufficientDriver || count == 0)
    fail<InputError>("device cuda: there is no NVIDIA GPU here, or no driver for it");
  check(status, "cudaGetDeviceCount");
  if (gpu >= count) fail<InputError>("device cuda: there is no GPU {}, only {} of them", gpu, count);
}

}  // namespace

void check(cudaError_t status, std::string_view call) {
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();  // or the next call would report it once more
  if (status == cudaErrorMemoryAllocation) fail<OutOfMemory>("cuda: {}: {}", call, cudaGetErrorString(status));
  fail("cuda: {}: {} ({})", call, cudaGetErrorString(status), cudaGetErrorName(status));
}

Context::Context(int gpu, bool tf32) : gpu_(gpu), uses_tf32_(tf32) {
  check_gpu(gpu);
  enter();
  try {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
    check(cudaDeviceGetDefaultMemPool(&pool_, gpu), "cudaDeviceGetDefaultMemPool");
    // Freed memory is kept for the next tensor.
    std::uint64_t kept = std::numeric_limits<std::uint64_t>::max();
    check(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &kept), "cudaMemPoolSetAttribute");
    check(cudaMalloc(&scratch_, scratch_bytes), "cudaMalloc");
    void* fault = nullptr;
    check(cudaHostAlloc(&fault, sizeof(Fault), cudaHostAllocMapped), "cudaHostAlloc");
    fault_ = new (fault) Fault;
    staging_ = std::make_unique<Staging>(stream_, *events_);
    moves_ = std::make_unique<HostMoves>(stream_, pool_, *events_);
    products_ = std::make_unique<CublasProducts>(*this);
    convolutions_ = std::make_unique<Convolutions>(*this);
  } catch (...) {
    release();
    throw;
  }
}

Context::~Context() {
  release();
}

void Context::release() {
  // A rank that failed has left work behind.
  if (stream_ != nullptr) (void)cudaStreamSynchronize(stream_);
  convolutions_.reset();
  products_.reset();
  moves_.reset();
  staging_.reset();
  if (fault_ != nullptr) (void)cudaFreeHost(fault_);
  if (scratch_ != nullptr) (void)cudaFree(scratch_);
  if (stream_ != nullptr) (void)cudaStreamDestroy(stream_);
  if (pool_ != nullptr) (void)cudaMemPoolTrimTo(pool_, 0);  // the next run takes what it needs, and reports how much
}

void Context::enter() const {
  check(cudaSetDevice(gpu_), "cudaSetDevice");
}

void Context::synchronize() {
  check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  const Fault fault = std::exchange(*fault_, Fault{});
  switch (fault.of) {
    case Fault::Of::nothing:
      return;
    case Fault::Of::label:
      fail<InputError>("cross_entropy: the label {} of sample {} is outside [0, {})", fault.index, fault.position,
                       fault.rows);
    case Fault::Of::class_rows:
    case Fault::Of::ascending_class_rows:
      fail("class rows: expected {}rows of {}, got {} in place {}",
           fault.of == Fault::Of::ascending_class_rows ? "ascending " : "", fault.rows, fault.index, fault.position);
    default:
      fail<InputError>("{}: index {} at position {} is outside the {} rows",
                       fault.of == Fault::Of::gather ? "gather_rows" : "scatter_rows", fault.index, fault.position,
                       fault.rows);
  }
}

}  // namespace heddle::cuda

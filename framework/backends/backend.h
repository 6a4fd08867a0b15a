// A backend computes and holds bytes: `cpu`, `cuda`, and `plan` (shapes only: allocations and FLOPs are counted,
// nothing is computed). Its kernels come in a few small interfaces, every one pure virtual, so that a forgotten kernel
// does not compile. Kernels never allocate: operations hand them outputs and workspaces, and all is metered. Plan holds
// the bytes of one of the others, whose workspaces it asks for (kernels/needs.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/kernels/class_rows.h"
#include "framework/kernels/convolution.h"
#include "framework/kernels/elementwise.h"
#include "framework/kernels/head.h"
#include "framework/kernels/linear_algebra.h"
#include "framework/kernels/normalization.h"
#include "framework/kernels/pooling.h"
#include "framework/kernels/reduction.h"
#include "framework/kernels/rows.h"
#include "framework/kernels/shape.h"
#include "framework/kernels/training.h"
#include "framework/tensors/mark.h"

namespace heddle {

/// The device that plan counts time for: what it reaches on large products and on large copies. The defaults are about
/// those of one core of a server.
struct DeviceProfile {
  double flops = 100e9;     // floating-point operations a second
  double bandwidth = 25e9;  // bytes a second, reading and writing together
};

/// What plan counts.
struct PlannedWork {
  std::int64_t flops = 0;  // floating-point operations
  double seconds = 0;      // that they take on the profile's device
};

/// The kernels of one backend, one group per theme.
struct BackendKernels {
  std::unique_ptr<const ElementwiseKernels> elementwise;
  std::unique_ptr<const ReductionKernels> reduction;
  std::unique_ptr<const ShapeKernels> shape;
  std::unique_ptr<const LinearAlgebraKernels> linear_algebra;
  std::unique_ptr<const ConvolutionKernels> convolution;
  std::unique_ptr<const NormalizationKernels> normalization;
  std::unique_ptr<const PoolingKernels> pooling;
  std::unique_ptr<const RowKernels> rows;
  std::unique_ptr<const HeadKernels> head;
  std::unique_ptr<const ClassRowKernels> class_rows;
  std::unique_ptr<const TrainingKernels> training;
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string_view name() const = 0;
  /// False on plan, whose addresses are null.
  virtual bool has_data() const = 0;

  /// 64-byte aligned memory on the device, or null on plan; OutOfMemory if there is none. Thread-safe.
  virtual void* allocate(std::int64_t bytes) = 0;
  virtual void deallocate(void* address, std::int64_t bytes) = 0;
  /// Bytes that the allocator took from the system, in use or kept for reuse; a GPU's are those of all its ranks.
  virtual std::int64_t reserved_bytes() const = 0;

  /// Between host memory and the device; both return when the host memory may be reused or read.
  virtual void copy_from_host(void* device, std::span<const std::byte> host) = 0;
  virtual void copy_to_host(std::span<std::byte> host, const void* device) = 0;
  /// Within the device's memory space, also between ranks; ordered with the kernels of the calling rank, with those of
  /// others by marks.
  virtual void copy(void* to, const void* from, std::int64_t bytes) = 0;
  /// Behind all that this rank has issued; null where a call returns with its work done (cpu, plan).
  virtual std::shared_ptr<const Mark> mark() = 0;
  /// What is issued on this rank's part of the device from now on begins after the mark, another rank's or its own; the
  /// host does not wait. Null is nothing. Thread-safe: who reads a rank's tensor makes that rank wait.
  virtual void wait_for(const Mark* mark) = 0;
  /// The host waits until everything issued by this rank is done; throws what kernels found wrong only then.
  virtual void synchronize() = 0;
  /// The same for those who read a clock: what is wrong is left to the next `synchronize`.
  virtual void settle() noexcept = 0;
  /// Called once by the rank's own thread before it computes: thread-team size, current device.
  virtual void enter_thread() = 0;

  /// What was counted so far: on plan only, else nothing.
  virtual PlannedWork work() const = 0;
  /// Counts all that was counted since then so many times more: on plan only.
  virtual void repeat(const PlannedWork& since, std::int64_t times) = 0;
  std::int64_t flops() const { return work().flops; }
  double seconds() const { return work().seconds; }

  const ElementwiseKernels& elementwise() const { return *kernels().elementwise; }
  const ReductionKernels& reduction() const { return *kernels().reduction; }
  const ShapeKernels& shape() const { return *kernels().shape; }
  const LinearAlgebraKernels& linear_algebra() const { return *kernels().linear_algebra; }
  const ConvolutionKernels& convolution() const { return *kernels().convolution; }
  const NormalizationKernels& normalization() const { return *kernels().normalization; }
  const PoolingKernels& pooling() const { return *kernels().pooling; }
  const RowKernels& rows() const { return *kernels().rows; }
  const HeadKernels& head() const { return *kernels().head; }
  const ClassRowKernels& class_rows() const { return *kernels().class_rows; }
  const TrainingKernels& training() const { return *kernels().training; }

 private:
  virtual const BackendKernels& kernels() const = 0;
};

struct BackendOptions {
  /// The cpu's: size of the thread team that computes for this rank.
  int threads = 1;
  /// The cpu's: 3 x 3 convolutions in f32 by F(4 x 4, 3 x 3), two to three times as fast, with rounding errors (rms) of
  /// 2e-6 to 5e-6 in place of 3e-7.
  bool winograd = false;
  /// The GPU's: products and convolutions of f32 take operands of 10 bits beside the leading one, on tensor cores.
  bool tf32 = false;
  /// Number of the rank's GPU on this machine.
  int gpu = 0;
  /// Plan's: the backend whose bytes it counts, cpu or cuda, and the device that it counts time for.
  std::string planned = "cpu";
  DeviceProfile profile{};
};

std::unique_ptr<Backend> make_cpu_backend(const BackendOptions& options);
/// A rank's part of an NVIDIA GPU; InputError without one, with too old a driver, or in a program built without CUDA.
std::unique_ptr<Backend> make_cuda_backend(const BackendOptions& options);
/// Counts what the planned backend so made would hold and do.
std::unique_ptr<Backend> make_plan_backend(const BackendOptions& options);

/// Makes the backend that an experiment names; InputError lists the names there are.
std::unique_ptr<Backend> make_backend(std::string_view name, const BackendOptions& options = {});
std::span<const std::string_view> backend_names();

/// What the backends compute with, and so what a result's bits depend on: libraries' versions, the CPU's instructions.
std::vector<std::pair<std::string, std::string>> backend_versions();
/// The versions of oneDNN and of the instructions that it uses.
std::vector<std::pair<std::string, std::string>> cpu_versions();
/// The versions of CUDA and its libraries; empty in a program built without them.
std::vector<std::pair<std::string, std::string>> cuda_versions();
/// Why this program was built without CUDA, and how it is built in; empty in a program built with it.
std::string cuda_absence();

}  // namespace heddle

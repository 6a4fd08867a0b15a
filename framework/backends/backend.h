// A backend computes and holds memory: `cpu`, `cuda`, and `plan` (shapes only: allocations and FLOPs are counted,
// nothing is computed). Its kernels are grouped by theme. A theme has the same name everywhere: its operations are in
// ops/THEME.h (those of head and class_rows in layers/head), the interface of its kernels in kernels/THEME.h, and their
// code in backends/cpu/THEME/, backends/cuda/THEME/ and backends/plan/THEME.cpp. The themes:
//
//   elementwise      arithmetic with broadcasting, activations, conversions between types
//   reduction        sums, means and maxima over dimensions, and over the tensors of several ranks
//   shape            reshapes, transposes, slices, concatenations
//   linear_algebra   matrix products
//   attention        softmax attention between the tokens of a sample
//   convolution      convolutions of images
//   normalization    batch norm, layer norm, L2, and the moments of groups of rows
//   pooling          maxima and means over windows of images
//   rows             gather, scatter-add, top-k, softmax and cross-entropy over the rows of a matrix
//   head             margin logits of the large-class head, their softmax and their gradient (layers/head uses it)
//   class_rows       the rows of a table of classes: read, stepped, initialised (layers/head uses it)
//   training         random fills, dropout, gradient norms, optimizer steps
//
// A kernel is declared once for all backends, and a program in which a backend lacks it does not link (kernels_on.h).
// Kernels never allocate: operations hand them outputs and workspaces, and every byte is metered. Plan charges the
// bytes of one of the other backends, whose workspaces it asks for (kernels/needs.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/kernels/attention.h"
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
  double flops_per_second = 100e9;  // floating-point operations
  double bytes_per_second = 25e9;   // reading and writing together
};

/// What plan counts.
struct PlannedWork {
  double flops = 0;    // floating-point operations; those of huge models are more than 64 bits can count
  double seconds = 0;  // the time that they take on the device of the profile
};

/// The kernels of one backend, one group per theme.
struct BackendKernels {
  std::unique_ptr<const ElementwiseKernels> elementwise;
  std::unique_ptr<const ReductionKernels> reduction;
  std::unique_ptr<const ShapeKernels> shape;
  std::unique_ptr<const LinearAlgebraKernels> linear_algebra;
  std::unique_ptr<const AttentionKernels> attention;
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

  /// Copies between host memory and the device; both return when the host memory may be reused or read.
  virtual void copy_from_host(void* device, std::span<const std::byte> host) = 0;
  virtual void copy_to_host(std::span<std::byte> host, const void* device) = 0;
  /// Copies within the memory of the device, also between ranks. The copy is ordered with the kernels of the calling
  /// rank; marks order it with those of other ranks.
  virtual void copy(void* to, const void* from, std::int64_t bytes) = 0;
  /// Page-aligned host memory, for `offload` and for copies: page-locked for cuda, which keeps it for the next such
  /// call; null on plan.
  virtual std::byte* allocate_host(std::int64_t bytes) = 0;
  /// Frees it once all transfers that were issued before are done.
  virtual void deallocate_host(std::byte* host, std::int64_t bytes) = 0;
  /// Moves the elements at an address to the host and deallocates it; and back, to an address that it allocates. Each
  /// transfer begins after everything that this rank has issued and after the transfer before it, and runs beside what
  /// the rank issues later. What reads the elements that came back must wait for `transfers`.
  virtual void offload(void* device, std::span<std::byte> host) = 0;
  virtual void* load(std::span<const std::byte> host) = 0;
  /// A mark behind all transfers; null where a call returns with its work done (cpu, plan).
  virtual std::shared_ptr<const Mark> transfers() = 0;
  /// A mark behind everything that this rank has issued; null where a call returns with its work done (cpu, plan).
  virtual std::shared_ptr<const Mark> mark() = 0;
  /// What is issued on this rank's part of the device from now on begins after the mark, which may be another rank's;
  /// the host does not wait. A null mark is ignored. Thread-safe: the reader of a rank's tensor makes that rank wait.
  virtual void wait_for(const Mark* mark) = 0;
  /// The host waits until everything issued by this rank is done; throws what kernels found wrong only then.
  virtual void synchronize() = 0;
  /// Waits like `synchronize`, before a clock is read, and leaves an error to the next `synchronize`.
  virtual void settle() noexcept = 0;
  /// Called once by the rank's own thread before it computes: sets the size of its thread team and its device.
  virtual void enter_thread() = 0;

  /// Begins and ends a range of this thread's calls, which a profiler shows with its name: of NVTX on cuda, without
  /// effect on the other backends. Ranges nest.
  virtual void begin_range(const std::string& /*name*/) {}
  virtual void end_range() {}

  /// What was counted so far; zero on the other backends.
  virtual PlannedWork work() const = 0;
  /// Counts the work since `since` another `times` times: on plan only.
  virtual void repeat(const PlannedWork& since, std::int64_t times) = 0;
  double flops() const { return work().flops; }
  double seconds() const { return work().seconds; }

  const ElementwiseKernels& elementwise() const { return *kernels().elementwise; }
  const ReductionKernels& reduction() const { return *kernels().reduction; }
  const ShapeKernels& shape() const { return *kernels().shape; }
  const LinearAlgebraKernels& linear_algebra() const { return *kernels().linear_algebra; }
  const AttentionKernels& attention() const { return *kernels().attention; }
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
  /// For cpu: the size of the thread team that computes for this rank; if empty, one thread.
  std::optional<int> threads{};
  /// For cpu: 3 x 3 convolutions in f32 by F(4 x 4, 3 x 3) where that is faster (about twice as fast), with
  /// rounding errors (rms) of 2e-6 to 5e-6 in place of 3e-7.
  bool winograd = false;
  /// For cuda: products and convolutions of f32 run on tensor cores, which read 10 bits of each operand's mantissa.
  bool tf32 = false;
  /// For cuda: the number of the rank's GPU on this machine; if empty, the first.
  std::optional<int> gpu{};
  /// For plan: the backend whose bytes it counts, cpu or cuda, and the device whose time it counts.
  std::string planned = "cpu";
  DeviceProfile profile{};
};

std::unique_ptr<Backend> make_cpu_backend(const BackendOptions& options);
/// A rank's part of an NVIDIA GPU; InputError without one, with too old a driver, or in a program built without CUDA.
std::unique_ptr<Backend> make_cuda_backend(const BackendOptions& options);
/// Counts what the planned backend, made with these options, would hold and do.
std::unique_ptr<Backend> make_plan_backend(const BackendOptions& options);

/// Makes the backend that an experiment names; InputError lists the known names.
std::unique_ptr<Backend> make_backend(std::string_view name, const BackendOptions& options = {});
std::span<const std::string_view> backend_names();

/// What the backends compute with, on which the bits of a result depend: versions of libraries, the CPU's instructions.
std::vector<std::pair<std::string, std::string>> backend_versions();
/// The versions of oneDNN and of the instructions that it uses.
std::vector<std::pair<std::string, std::string>> cpu_versions();
/// The versions of CUDA and its libraries; empty in a program built without them.
std::vector<std::pair<std::string, std::string>> cuda_versions();
/// Why this program was built without CUDA, and how it is built in; nothing in a program built with it.
std::optional<std::string> cuda_absence();

}  // namespace heddle

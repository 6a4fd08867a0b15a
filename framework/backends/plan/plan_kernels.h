// The plan backend's kernels: they look at shapes, count operations, bytes and seconds, and touch nothing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "framework/backends/backend.h"
#include "framework/kernels/needs.h"

namespace heddle::plan {

/// What the kernels of one backend add to. A kernel lasts as its operations or as the bytes that it moves, whichever
/// takes longer on the device of the profile (the roofline: Williams, Waterman, Patterson, CACM 2009).
class WorkCounter {
 public:
  explicit WorkCounter(const DeviceProfile& profile) : profile_(profile) {}

  void add(std::int64_t flops, std::int64_t bytes) {
    work_.flops += flops;
    work_.seconds +=
        std::max(static_cast<double>(flops) / profile_.flops, static_cast<double>(bytes) / profile_.bandwidth);
  }
  /// A kernel that reads or writes each of these once; one that does both names it twice. Undefined ones are nothing.
  template <class... Tensors>
  void kernel(std::int64_t flops, const Tensors&... tensors) {
    add(flops, (std::int64_t{0} + ... + (tensors.defined() ? tensors.bytes() : 0)));
  }
  void repeat(const PlannedWork& since, std::int64_t times) {
    work_.flops += times * (work_.flops - since.flops);
    work_.seconds += static_cast<double>(times) * (work_.seconds - since.seconds);
  }

  const PlannedWork& work() const { return work_; }

 private:
  DeviceProfile profile_;
  PlannedWork work_;
};

std::unique_ptr<ElementwiseKernels> make_plan_elementwise(WorkCounter& counter);
std::unique_ptr<RowKernels> make_plan_rows(WorkCounter& counter);
std::unique_ptr<HeadKernels> make_plan_head(WorkCounter& counter);
std::unique_ptr<ClassRowKernels> make_plan_class_rows(WorkCounter& counter);
std::unique_ptr<TrainingKernels> make_plan_training(WorkCounter& counter);
std::unique_ptr<LinearAlgebraKernels> make_plan_linear_algebra(WorkCounter& counter, KernelNeeds& needs);
std::unique_ptr<ConvolutionKernels> make_plan_convolution(WorkCounter& counter, KernelNeeds& needs);

}  // namespace heddle::plan

// The plan backend's kernels look at shapes, count operations, bytes and seconds here, and touch nothing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "framework/backends/backend.h"
#include "framework/kernels/needs.h"

namespace heddle::plan {

/// What the kernels of one backend add to. A kernel lasts as long as its operations or the bytes that it moves,
/// whichever take longer on the device of the profile (the roofline: Williams, Waterman, Patterson, CACM 2009).
class WorkCounter {
 public:
  explicit WorkCounter(const DeviceProfile& profile) : profile_(profile) {}

  void add(double flops, std::int64_t bytes) {
    work_.flops += flops;
    work_.seconds +=
        std::max(flops / profile_.flops_per_second, static_cast<double>(bytes) / profile_.bytes_per_second);
  }
  /// A kernel that reads or writes each of these tensors once; one that does both names it twice. Undefined tensors
  /// have no bytes.
  template <class... Tensors>
  void kernel(double flops, const Tensors&... tensors) {
    add(flops, (std::int64_t{0} + ... + (tensors.defined() ? tensors.bytes() : 0)));
  }
  /// The same with a number of operations for each element of x.
  template <class... Tensors>
  void per_element(std::int64_t operations, const Tensor& x, const Tensors&... others) {
    kernel(static_cast<double>(operations) * static_cast<double>(x.numel()), x, others...);
  }
  /// A bias is added as the cpu does it: to what it has multiplied. Undefined: there is none.
  void add_bias(const Tensor& bias, const Tensor& y) {
    if (bias.defined()) kernel(static_cast<double>(y.numel()), y, bias, y);
  }
  void repeat(const PlannedWork& since, std::int64_t times) {
    work_.flops += static_cast<double>(times) * (work_.flops - since.flops);
    work_.seconds += static_cast<double>(times) * (work_.seconds - since.seconds);
  }

  const PlannedWork& work() const { return work_; }

 private:
  DeviceProfile profile_;
  PlannedWork work_;
};

/// What plan's kernels share: the counter, and the needs of the backend that is planned.
struct Context {
  WorkCounter counter;
  std::shared_ptr<KernelNeeds> needs;
};

}  // namespace heddle::plan

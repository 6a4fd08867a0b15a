// The cpu backend's reductions.
#pragma once

#include "framework/kernels/reduction.h"

namespace heddle::cpu {

class CpuReduction final : public ReductionKernels {
 public:
  void reduce(ReduceOp op, const Tensor& x, std::array<std::int64_t, 3> view, Tensor& y) const override;
  void reduce_max_backward(const Tensor& x, const Tensor& y, std::array<std::int64_t, 3> view, const Tensor& dy,
                           Tensor& dx) const override;
  void combine(ReduceOp op, std::span<const Tensor> parts, std::span<Tensor> results) const override;
};

}  // namespace heddle::cpu

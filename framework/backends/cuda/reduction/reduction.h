// The cuda backend's reductions.
#pragma once

#include "framework/backends/cuda/device/context.h"
#include "framework/kernels/reduction.h"

namespace heddle::cuda {

class CudaReduction final : public ReductionKernels {
 public:
  explicit CudaReduction(const Context& context) : context_(context) {}

  void reduce(ReduceOp op, const Tensor& x, std::array<std::int64_t, 3> view, Tensor& y) const override;
  void reduce_max_backward(const Tensor& x, const Tensor& y, std::array<std::int64_t, 3> view, const Tensor& dy,
                           Tensor& dx) const override;
  void combine(ReduceOp op, std::span<const Tensor> parts, std::span<Tensor> results) const override;

 private:
  const Context& context_;
};

}  // namespace heddle::cuda

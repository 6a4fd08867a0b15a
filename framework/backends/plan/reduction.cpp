#include "framework/kernels/reduction.h"

#include "framework/backends/plan/context.h"

namespace heddle {

template <>
void ReductionKernelsOn<plan::Context>::reduce(ReduceOp /*op*/, const Tensor& x, std::array<std::int64_t, 3> /*view*/,
                                               Tensor& y) const {
  context_.counter.kernel(x.numel(), x, y);
}

template <>
void ReductionKernelsOn<plan::Context>::reduce_max_backward(const Tensor& x, const Tensor& y,
                                                            std::array<std::int64_t, 3> /*view*/, const Tensor& dy,
                                                            Tensor& dx) const {
  context_.counter.kernel(x.numel(), x, y, dy, dx);
}

template <>
void ReductionKernelsOn<plan::Context>::combine(Reduction /*reduction*/, std::span<const Tensor> parts,
                                                std::span<Tensor> results) const {
  const auto tensors = static_cast<std::int64_t>(parts.size() + results.size());
  context_.counter.add(static_cast<std::int64_t>(parts.size() - 1) * results[0].numel(), tensors * results[0].bytes());
}

}  // namespace heddle

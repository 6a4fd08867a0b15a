#include "framework/backends/plan/reduction.h"

namespace heddle::plan {

void PlanReduction::reduce(ReduceOp /*op*/, const Tensor& x, std::array<std::int64_t, 3> /*view*/, Tensor& y) const {
  counter_.kernel(x.numel(), x, y);
}

void PlanReduction::reduce_max_backward(const Tensor& x, const Tensor& y, std::array<std::int64_t, 3> /*view*/,
                                        const Tensor& dy, Tensor& dx) const {
  counter_.kernel(x.numel(), x, y, dy, dx);
}

void PlanReduction::combine(ReduceOp /*op*/, std::span<const Tensor> parts, std::span<Tensor> results) const {
  const auto tensors = static_cast<std::int64_t>(parts.size() + results.size());
  counter_.add(static_cast<std::int64_t>(parts.size() - 1) * results[0].numel(), tensors * results[0].bytes());
}

}  // namespace heddle::plan

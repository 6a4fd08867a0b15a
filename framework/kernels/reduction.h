// Reductions over dimensions of a tensor, and over tensors.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "framework/tensors/tensor.h"

namespace heddle {

enum class ReduceOp { sum, mean, max };
/// How the tensors of several ranks are combined.
enum class Reduction { sum, max };

class ReductionKernels {
 public:
  virtual ~ReductionKernels() = default;

  /// x seen as [outer, reduced, inner] -> y of outer * inner elements. Sums in a fixed order, f32 sums in f32 blocks
  /// that are added in f64.
  virtual void reduce(ReduceOp op, const Tensor& x, std::array<std::int64_t, 3> view, Tensor& y) const = 0;
  /// dx[o,r,i] = dy[o,i] where x[o,r,i] == y[o,i] for the first such r, else 0.
  virtual void reduce_max_backward(const Tensor& x, const Tensor& y, std::array<std::int64_t, 3> view, const Tensor& dy,
                                   Tensor& dx) const = 0;
  /// Every result = parts[0] + parts[1] + .., or their maximum, in this order, rounded to the dtype after each (a NaN
  /// stays). All of one floating dtype and size, possibly on other ranks' devices; a result may be one of the parts.
  virtual void combine(Reduction reduction, std::span<const Tensor> parts, std::span<Tensor> results) const = 0;
};

/// The kernels of one backend, which defines each of them for its own Context (framework/backends/kernels_on.h).
template <class Context>
class ReductionKernelsOn final : public ReductionKernels {
 public:
  explicit ReductionKernelsOn(Context& context) : context_(context) {}

  void reduce(ReduceOp op, const Tensor& x, std::array<std::int64_t, 3> view, Tensor& y) const override;
  void reduce_max_backward(const Tensor& x, const Tensor& y, std::array<std::int64_t, 3> view, const Tensor& dy,
                           Tensor& dx) const override;
  void combine(Reduction reduction, std::span<const Tensor> parts, std::span<Tensor> results) const override;

 private:
  Context& context_;
};

}  // namespace heddle

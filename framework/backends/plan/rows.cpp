#include "framework/kernels/rows.h"

#include "framework/backends/plan/context.h"

namespace heddle {

// Only the rows of a table that the index names are read and written.
template <>
void RowKernelsOn<plan::Context>::gather(const Tensor& /*x*/, const Tensor& index, Tensor& y) const {
  context_.counter.kernel(0, index, y, y);
}

template <>
void RowKernelsOn<plan::Context>::scatter_add(const Tensor& x, const Tensor& index, Tensor& /*y*/) const {
  context_.counter.kernel(x.numel(), index, x, x, x);
}

template <>
void RowKernelsOn<plan::Context>::top_k(const Tensor& x, Tensor& values, Tensor& index) const {
  context_.counter.per_element(1, x, values, index);
}

template <>
void RowKernelsOn<plan::Context>::rank_columns(const Tensor& x, Tensor& first, Tensor& rest) const {
  context_.counter.per_element(1, x, first, rest);
}

template <>
void RowKernelsOn<plan::Context>::softmax(const Tensor& x, Tensor& y) const {
  context_.counter.per_element(4, x, y);
}

template <>
void RowKernelsOn<plan::Context>::softmax_backward(const Tensor& y, const Tensor& dy, Tensor& dx) const {
  context_.counter.per_element(4, y, dy, dx);
}

template <>
void RowKernelsOn<plan::Context>::log_sum_exp(const Tensor& x, Tensor& /*y*/) const {
  context_.counter.per_element(3, x);
}

template <>
void RowKernelsOn<plan::Context>::log_sum_exp_backward(const Tensor& x, const Tensor& /*y*/, const Tensor& /*dy*/,
                                                       Tensor& dx) const {
  context_.counter.per_element(3, x, dx);
}

template <>
void RowKernelsOn<plan::Context>::cross_entropy(const Tensor& /*x*/, const Tensor& log_sums, const Tensor& /*labels*/,
                                                Tensor& /*loss*/) const {
  context_.counter.per_element(1, log_sums);
}

template <>
void RowKernelsOn<plan::Context>::cross_entropy_backward(const Tensor& x, const Tensor& /*log_sums*/,
                                                         const Tensor& /*labels*/, const Tensor& /*dloss*/,
                                                         Tensor& dx) const {
  context_.counter.per_element(3, x, dx);
}

}  // namespace heddle

#include "framework/backends/plan/rows.h"

namespace heddle::plan {

// Only the rows of a table that the index names are read and written.
void PlanRows::gather(const Tensor& /*x*/, const Tensor& index, Tensor& y) const {
  counter_.kernel(0, index, y, y);
}

void PlanRows::scatter_add(const Tensor& x, const Tensor& index, Tensor& /*y*/) const {
  counter_.kernel(x.numel(), index, x, x, x);
}

void PlanRows::top_k(const Tensor& x, Tensor& values, Tensor& index) const {
  counter_.per_element(1, x, values, index);
}

void PlanRows::softmax(const Tensor& x, Tensor& y) const {
  counter_.per_element(4, x, y);
}

void PlanRows::softmax_backward(const Tensor& y, const Tensor& dy, Tensor& dx) const {
  counter_.per_element(4, y, dy, dx);
}

void PlanRows::log_sum_exp(const Tensor& x, Tensor& /*y*/) const {
  counter_.per_element(3, x);
}

void PlanRows::log_sum_exp_backward(const Tensor& x, const Tensor& /*y*/, const Tensor& /*dy*/, Tensor& dx) const {
  counter_.per_element(3, x, dx);
}

void PlanRows::cross_entropy(const Tensor& /*x*/, const Tensor& log_sums, const Tensor& /*labels*/,
                             Tensor& /*loss*/) const {
  counter_.per_element(1, log_sums);
}

void PlanRows::cross_entropy_backward(const Tensor& x, const Tensor& /*log_sums*/, const Tensor& /*labels*/,
                                      const Tensor& /*dloss*/, Tensor& dx) const {
  counter_.per_element(3, x, dx);
}

}  // namespace heddle::plan

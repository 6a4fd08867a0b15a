// Kernels over the rows of a matrix: gather, scatter-add, top-k, ranks, softmax and cross-entropy. A row is the last
// dimension; everything before it counts rows. What has one element per row (sums, losses) is of the compute type: f64
// beside f64, else f32.
#pragma once

#include "framework/tensors/tensor.h"

namespace heddle {

class RowKernels {
 public:
  virtual ~RowKernels() = default;

  /// y[i] = x[index[i]] along the leading dimension; index i64. InputError names an index outside x.
  virtual void gather(const Tensor& x, const Tensor& index, Tensor& y) const = 0;
  /// y[index[i]] += x[i], in order of i.
  virtual void scatter_add(const Tensor& x, const Tensor& index, Tensor& y) const = 0;
  /// Largest k values of each row, in descending order, ties by lower index first; values [n, k], index [n, k] i64.
  virtual void top_k(const Tensor& x, Tensor& values, Tensor& index) const = 0;
  /// All columns of each row in the order of top_k, as elements of all of x: the first k in `first` [n, k], the others
  /// in `rest` [n, columns - k]; both i64. For the few hundred columns that a sample has tokens: on a GPU each element
  /// is compared with all of its row.
  virtual void rank_columns(const Tensor& x, Tensor& first, Tensor& rest) const = 0;

  virtual void softmax(const Tensor& x, Tensor& y) const = 0;
  /// dx = y * (dy - sum(dy * y)).
  virtual void softmax_backward(const Tensor& y, const Tensor& dy, Tensor& dx) const = 0;
  /// y [n] = ln sum exp(x), -inf for a row without columns.
  virtual void log_sum_exp(const Tensor& x, Tensor& y) const = 0;
  /// dx = dy[i] * exp(x - y[i]).
  virtual void log_sum_exp_backward(const Tensor& x, const Tensor& y, const Tensor& dy, Tensor& dx) const = 0;
  /// loss [n] = y[i] - x[i, label[i]] with y = log_sum_exp(x). InputError names the sample of a label outside [0, C).
  virtual void cross_entropy(const Tensor& x, const Tensor& log_sums, const Tensor& labels, Tensor& loss) const = 0;
  /// dx = dloss[i] * (exp(x - log_sums[i]) - onehot).
  virtual void cross_entropy_backward(const Tensor& x, const Tensor& log_sums, const Tensor& labels,
                                      const Tensor& dloss, Tensor& dx) const = 0;
};

/// The kernels of one backend, which defines each of them for its own Context (framework/backends/kernels_on.h).
template <class Context>
class RowKernelsOn final : public RowKernels {
 public:
  explicit RowKernelsOn(Context& context) : context_(context) {}

  void gather(const Tensor& x, const Tensor& index, Tensor& y) const override;
  void scatter_add(const Tensor& x, const Tensor& index, Tensor& y) const override;
  void top_k(const Tensor& x, Tensor& values, Tensor& index) const override;
  void rank_columns(const Tensor& x, Tensor& first, Tensor& rest) const override;
  void softmax(const Tensor& x, Tensor& y) const override;
  void softmax_backward(const Tensor& y, const Tensor& dy, Tensor& dx) const override;
  void log_sum_exp(const Tensor& x, Tensor& y) const override;
  void log_sum_exp_backward(const Tensor& x, const Tensor& y, const Tensor& dy, Tensor& dx) const override;
  void cross_entropy(const Tensor& x, const Tensor& log_sums, const Tensor& labels, Tensor& loss) const override;
  void cross_entropy_backward(const Tensor& x, const Tensor& log_sums, const Tensor& labels, const Tensor& dloss,
                              Tensor& dx) const override;

 private:
  Context& context_;
};

}  // namespace heddle

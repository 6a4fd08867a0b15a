#include "framework/ops/rows.h"

#include "framework/ops/checks.h"
#include "framework/tensors/device.h"

namespace heddle {

namespace {

const RowKernels& row_kernels_of(const Tensor& x) {
  return x.device().backend().rows();
}

void check_index(std::string_view what, const Tensor& index) {
  if (index.dtype() != DType::i64 || index.shape().rank() != 1)
    fail<InputError>("{}: expected an index i64[n], got {}", what, to_string(index));
}

/// One number of the compute type for each row of x.
Tensor one_per_row(std::string_view what, const Tensor& x) {
  check_floating(what, x);
  if (x.shape().rank() == 0) fail<InputError>("{}: {} has no rows", what, to_string(x));
  const auto sizes = x.shape().dimensions();
  return Tensor::empty(x.device(), Shape(sizes.first(sizes.size() - 1)), compute_dtype(x.dtype()));
}

Tensor gathered(const Tensor& x, const Tensor& index) {
  Tensor y = Tensor::empty(x.device(), x.shape().with(0, index.numel()), x.dtype());
  row_kernels_of(x).gather(x, index, y);
  return y;
}

Tensor scattered(const Tensor& x, const Tensor& index, std::int64_t rows) {
  Tensor y = Tensor::zeros(x.device(), x.shape().with(0, rows), x.dtype());
  row_kernels_of(x).scatter_add(x, index, y);
  return y;
}

}  // namespace

Variable gather_rows(const Variable& x, const Tensor& index) {
  check_index("gather_rows", index);
  if (x.shape().rank() == 0) fail<InputError>("gather_rows: {} has no rows", to_string(x.value()));
  return record(gathered(x.value(), index), {x}, [index, rows = x.shape()[0]](const Tensor& dy, Wanted) {
    return Gradients{scattered(dy, index, rows)};
  });
}

Variable scatter_rows(const Variable& x, const Tensor& index, std::int64_t rows) {
  check_floating("scatter_rows", x.value());
  check_index("scatter_rows", index);
  if (x.shape().rank() == 0 || x.shape()[0] != index.numel())
    fail<InputError>("scatter_rows: {} for {} does not give each row one place", to_string(index),
                     to_string(x.value()));
  return record(scattered(x.value(), index, rows), {x},
                [index](const Tensor& dy, Wanted) { return Gradients{gathered(dy, index)}; });
}

Variable softmax(const Variable& x) {
  check_floating("softmax", x.value());
  if (x.shape().rank() == 0) fail<InputError>("softmax: {} has no rows", to_string(x.value()));
  Tensor y = Tensor::empty_like(x.value());
  row_kernels_of(y).softmax(x.value(), y);
  return record(y, {x}, [y](const Tensor& dy, Wanted) {
    Tensor dx = Tensor::empty_like(y);
    row_kernels_of(y).softmax_backward(y, dy, dx);
    return Gradients{dx};
  });
}

Variable log_sum_exp(const Variable& x) {
  Tensor y = one_per_row("log_sum_exp", x.value());
  row_kernels_of(y).log_sum_exp(x.value(), y);
  return record(y, {x}, [x = x.value(), y](const Tensor& dy, Wanted) {
    Tensor dx = Tensor::empty_like(x);
    row_kernels_of(x).log_sum_exp_backward(x, y, dy, dx);
    return Gradients{dx};
  });
}

Variable cross_entropy(const Variable& logits, const Tensor& labels) {
  Tensor log_sums = one_per_row("cross_entropy", logits.value());
  if (labels.dtype() != DType::i64 || labels.shape() != log_sums.shape())
    fail<InputError>("cross_entropy: expected labels {} for logits {}, got {}", to_string(DType::i64, log_sums.shape()),
                     to_string(logits.value()), to_string(labels));
  Tensor loss = Tensor::empty_like(log_sums);
  row_kernels_of(loss).log_sum_exp(logits.value(), log_sums);
  row_kernels_of(loss).cross_entropy(logits.value(), log_sums, labels, loss);
  return record(loss, {logits}, [x = logits.value(), log_sums, labels](const Tensor& dloss, Wanted) {
    Tensor dx = Tensor::empty_like(x);
    row_kernels_of(x).cross_entropy_backward(x, log_sums, labels, dloss, dx);
    return Gradients{dx};
  });
}

TopK top_k(const Tensor& x, std::int64_t k) {
  check_floating("top_k", x);
  if (x.shape().rank() == 0 || k < 0 || k > x.shape().back())
    fail<InputError>("top_k: the rows of {} have no {} largest", to_string(x), k);
  const Shape shape = x.shape().with(x.shape().rank() - 1, k);
  TopK result{Tensor::empty(x.device(), shape, x.dtype()), Tensor::empty(x.device(), shape, DType::i64)};
  row_kernels_of(x).top_k(x, result.values, result.index);
  return result;
}

}  // namespace heddle

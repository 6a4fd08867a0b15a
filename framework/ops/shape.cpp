#include "framework/ops/shape.h"

#include <array>
#include <vector>

#include <fmt/ranges.h>

#include "framework/ops/checks.h"
#include "framework/tensors/device.h"

namespace heddle {

namespace {

const ShapeKernels& shape_kernels_of(const Tensor& x) {
  return x.device().backend().shape();
}

/// Elements of one step along a dimension.
std::int64_t inner_of(const Shape& shape, int dimension) {
  return shape.product(dimension + 1, shape.rank());
}

/// Copies `part` into `whole` at `begin` of a dimension.
void copy_part(Tensor& whole, int dimension, std::int64_t begin, const Tensor& part) {
  const std::int64_t inner = inner_of(whole.shape(), dimension);
  const std::int64_t columns = part.shape()[dimension] * inner;
  shape_kernels_of(whole).copy_columns({.rows = whole.shape().product(0, dimension),
                                        .columns = columns,
                                        .x_columns = columns,
                                        .y_columns = whole.shape()[dimension] * inner,
                                        .y_begin = begin * inner},
                                       part, whole);
}

using Order = std::array<int, Shape::max_rank>;

Tensor transposed(const Tensor& x, std::span<const int> order) {
  std::array<std::int64_t, Shape::max_rank> sizes{};
  for (std::size_t i = 0; i < order.size(); ++i) sizes[i] = x.shape()[order[i]];
  Tensor y = Tensor::empty(x.device(), Shape(std::span<const std::int64_t>(sizes.data(), order.size())), x.dtype());
  shape_kernels_of(x).transpose(x, order, y);
  return y;
}

}  // namespace

Variable reshape(const Variable& x, std::span<const std::int64_t> dimensions) {
  return record(x.value().reshape(dimensions), {x},
                [shape = x.shape()](const Tensor& dy, Wanted) { return Gradients{dy.reshape(shape)}; });
}
Variable reshape(const Variable& x, std::initializer_list<std::int64_t> dimensions) {
  return reshape(x, std::span(dimensions.begin(), dimensions.size()));
}

Variable transpose(const Variable& x, std::initializer_list<int> order) {
  const auto rank = static_cast<std::size_t>(x.shape().rank());
  Order forth{};
  Order back{};
  unsigned seen = 0;
  bool is_permutation = order.size() == rank;
  for (std::size_t i = 0; i < rank && is_permutation; ++i) {
    const int dimension = order.begin()[i] < 0 ? order.begin()[i] + x.shape().rank() : order.begin()[i];
    is_permutation = dimension >= 0 && dimension < x.shape().rank() && (seen >> dimension & 1U) == 0;
    if (!is_permutation) break;
    seen |= 1U << dimension;
    forth[i] = dimension;
    back[static_cast<std::size_t>(dimension)] = static_cast<int>(i);
  }
  if (!is_permutation)
    fail<InputError>("transpose: [{}] is not a permutation of the dimensions of {}", fmt::join(order, ","),
                     to_string(x.value()));
  return record(transposed(x.value(), std::span(forth).first(rank)), {x}, [back, rank](const Tensor& dy, Wanted) {
    return Gradients{transposed(dy, std::span(back).first(rank))};
  });
}

Tensor slice_tensor(const Tensor& x, int dimension, std::int64_t begin, std::int64_t end) {
  const int at = checked_dimension("slice", x, dimension);
  if (begin < 0 || begin > end || end > x.shape()[at])
    fail<InputError>("slice: dimension {} of {} has no elements {} to {}", dimension, to_string(x), begin, end);
  if (at == 0) return x.rows(begin, end);
  Tensor y = Tensor::empty(x.device(), x.shape().with(at, end - begin), x.dtype());
  const std::int64_t inner = inner_of(x.shape(), at);
  const std::int64_t columns = (end - begin) * inner;
  shape_kernels_of(x).copy_columns({.rows = x.shape().product(0, at),
                                    .columns = columns,
                                    .x_columns = x.shape()[at] * inner,
                                    .x_begin = begin * inner,
                                    .y_columns = columns},
                                   x, y);
  return y;
}

Variable slice(const Variable& x, int dimension, std::int64_t begin, std::int64_t end) {
  Tensor y = slice_tensor(x.value(), dimension, begin, end);
  const int at = checked_dimension("slice", x.value(), dimension);
  return record(std::move(y), {x}, [shape = x.shape(), at, begin](const Tensor& dy, Wanted) {
    Tensor dx = Tensor::zeros(dy.device(), shape, dy.dtype());
    copy_part(dx, at, begin, dy);
    return Gradients{dx};
  });
}

Tensor concat_tensors(std::span<const Tensor> inputs, int dimension) {
  if (inputs.empty()) fail<InputError>("concat: expected at least one input");
  const Tensor& first = inputs.front();
  const int at = checked_dimension("concat", first, dimension);
  std::int64_t size = 0;
  for (const Tensor& input : inputs) {
    if (input.dtype() != first.dtype() || input.shape().rank() != first.shape().rank() ||
        input.shape().with(at, 0) != first.shape().with(at, 0))
      fail<InputError>("concat: {} and {} differ in more than dimension {}", to_string(first), to_string(input),
                       dimension);
    size += input.shape()[at];
  }
  if (inputs.size() == 1) return first;
  Tensor y = Tensor::empty(first.device(), first.shape().with(at, size), first.dtype());
  std::int64_t begin = 0;
  for (const Tensor& input : inputs) {
    copy_part(y, at, begin, input);
    begin += input.shape()[at];
  }
  return y;
}

Variable concat(std::span<const Variable> inputs, int dimension) {
  std::vector<Tensor> tensors;
  std::vector<std::int64_t> sizes;
  for (const Variable& input : inputs) tensors.push_back(input.value());
  Tensor y = concat_tensors(tensors, dimension);
  const int at = checked_dimension("concat", y, dimension);
  for (const Tensor& tensor : tensors) sizes.push_back(tensor.shape()[at]);
  return record(std::move(y), inputs, [sizes, at](const Tensor& dy, Wanted wanted) {
    Gradients gradients(sizes.size());
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < sizes.size(); begin += sizes[i++])
      if (wanted[i]) gradients[i] = slice_tensor(dy, at, begin, begin + sizes[i]);
    return gradients;
  });
}

}  // namespace heddle

// Operations that move elements: reshape, transpose, slice, concat. A negative dimension counts from the end.
#pragma once

#include <span>

#include "framework/autograd/autograd.h"

namespace heddle {

/// Copies nothing; one dimension may be -1.
Variable reshape(const Variable& x, std::span<const std::int64_t> dimensions);
Variable reshape(const Variable& x, std::initializer_list<std::int64_t> dimensions);
/// The result's dimension i is x's dimension order[i].
Variable transpose(const Variable& x, std::initializer_list<int> order);
/// Elements begin .. end-1 of one dimension; the leading one is sliced without a copy.
Variable slice(const Variable& x, int dimension, std::int64_t begin, std::int64_t end);
/// All inputs agree but in `dimension`.
Variable concat(std::span<const Variable> inputs, int dimension);

/// Without a graph: for collectives and data movement.
Tensor concat_tensors(std::span<const Tensor> inputs, int dimension);
Tensor slice_tensor(const Tensor& x, int dimension, std::int64_t begin, std::int64_t end);

}  // namespace heddle

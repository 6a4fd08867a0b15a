// Operations over the rows of a matrix.
#pragma once

#include "framework/autograd/autograd.h"

namespace heddle {

/// x[index[i]]; index i64 [n]. The gradient of rows taken twice is their sum.
Variable gather_rows(const Variable& x, const Tensor& index);
/// A zero matrix of `rows` rows to which x[i] is added at index[i].
Variable scatter_rows(const Variable& x, const Tensor& index, std::int64_t rows);

/// Over the last dimension.
Variable softmax(const Variable& x);
/// Over the last dimension, which disappears. The result, like losses, is f64 for f64 and f32 for all other types.
Variable log_sum_exp(const Variable& x);
/// Losses [n] of logits [n, C] for labels i64 [n]. InputError names the sample of a label outside [0, C).
Variable cross_entropy(const Variable& logits, const Tensor& labels);

/// Largest k of each row in descending order, ties by lower index.
struct TopK {
  Tensor values;  // [n, k]
  Tensor index;   // [n, k], i64
};
TopK top_k(const Tensor& x, std::int64_t k);

}  // namespace heddle

// The parts of the cuda backend's row kernels that have files of their own; rows.cu composes them.
#pragma once

#include "framework/backends/cuda/device/context.h"
#include "framework/tensors/tensor.h"

namespace heddle::cuda {

/// Leaves the first index outside [0, rows) as the context's fault, unless there is one already.
void check_indices(const Context& context, Fault::Of of, const std::int64_t* index, std::int64_t count,
                   std::int64_t rows);

// top_k.cu
void top_k(const Context& context, const Tensor& x, Tensor& values, Tensor& index);
// softmax.cu
void softmax(const Context& context, const Tensor& x, Tensor& y);
void softmax_backward(const Context& context, const Tensor& y, const Tensor& dy, Tensor& dx);
void log_sum_exp(const Context& context, const Tensor& x, Tensor& y);
void log_sum_exp_backward(const Context& context, const Tensor& x, const Tensor& y, const Tensor& dy, Tensor& dx);
void cross_entropy(const Context& context, const Tensor& x, const Tensor& log_sums, const Tensor& labels, Tensor& loss);
void cross_entropy_backward(const Context& context, const Tensor& x, const Tensor& log_sums, const Tensor& labels,
                            const Tensor& dloss, Tensor& dx);
// normalize_rows.cu
void l2_normalize(const Context& context, const Tensor& x, double epsilon, Tensor& y, Tensor& inverse_norm);
void l2_normalize_backward(const Context& context, const Tensor& x, const Tensor& inverse_norm, const Tensor& dy,
                           Tensor& dx);
void layer_norm(const Context& context, const Tensor& x, const Tensor& gamma, const Tensor& beta, double epsilon,
                Tensor& y, Tensor& statistics);
void layer_norm_backward(const Context& context, const Tensor& x, const Tensor& gamma, const Tensor& statistics,
                         const Tensor& dy, Tensor& dx, Tensor& dgamma, Tensor& dbeta);

}  // namespace heddle::cuda

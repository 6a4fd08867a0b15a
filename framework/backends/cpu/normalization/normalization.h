// Row normalisations of the cpu backend (normalize_rows.cpp); rows.cpp composes them into its kernels.
#pragma once

#include "framework/tensors/tensor.h"

namespace heddle::cpu {

void l2_normalize(const Tensor& x, double epsilon, Tensor& y, Tensor& inverse_norm);
void l2_normalize_backward(const Tensor& x, const Tensor& inverse_norm, const Tensor& dy, Tensor& dx);
void layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double epsilon, Tensor& y,
                Tensor& statistics);
void layer_norm_backward(const Tensor& x, const Tensor& gamma, const Tensor& statistics, const Tensor& dy, Tensor& dx,
                         Tensor& dgamma, Tensor& dbeta);

}  // namespace heddle::cpu

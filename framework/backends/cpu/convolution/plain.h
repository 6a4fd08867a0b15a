// Convolution as loops, for f64 and for what oneDNN has no fast code for. Weights are plain, [out, kh, kw, in/groups].
#pragma once

#include "framework/kernels/convolution.h"

namespace heddle::cpu {

// T is float or double.
template <class T>
void plain_forward(const ConvolutionGeometry& g, const T* x, const T* weight, T* y);
template <class T>
void plain_backward_input(const ConvolutionGeometry& g, const T* dy, const T* weight, T* dx);
template <class T>
void plain_backward_weight(const ConvolutionGeometry& g, const T* x, const T* dy, T* dweight);

}  // namespace heddle::cpu

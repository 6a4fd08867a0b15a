#include "framework/backends/cuda/cuda_kernels.h"
namespace heddle::cuda {
std::unique_ptr<LinearAlgebraKernels> make_cuda_linear_algebra(const Context&) {
  return nullptr;
}
std::unique_ptr<ConvolutionKernels> make_cuda_convolution(const Context&) {
  return nullptr;
}
}  // namespace heddle::cuda

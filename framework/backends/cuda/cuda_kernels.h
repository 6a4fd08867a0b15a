// The kernel groups of the cuda backend, one factory each; backend.cpp composes them. They launch on the context's
// stream and do not wait.
#pragma once

#include <memory>

#include "framework/backends/backend.h"
#include "framework/backends/cuda/device/context.h"

namespace heddle::cuda {

/// cublasLt where the program's toolkit has it: cuDNN, which asks for it by name, then finds it. InputError if it is
/// not there.
void open_cublas_lt();

std::unique_ptr<ElementwiseKernels> make_cuda_elementwise(const Context& context);
std::unique_ptr<LinearAlgebraKernels> make_cuda_linear_algebra(const Context& context);
std::unique_ptr<ConvolutionKernels> make_cuda_convolution(const Context& context);
std::unique_ptr<RowKernels> make_cuda_rows(const Context& context);
std::unique_ptr<HeadKernels> make_cuda_head(const Context& context);
std::unique_ptr<ClassRowKernels> make_cuda_class_rows(const Context& context);
std::unique_ptr<TrainingKernels> make_cuda_training(const Context& context);

}  // namespace heddle::cuda

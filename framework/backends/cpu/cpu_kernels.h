// The kernel groups of the cpu backend, one factory each; backend.cpp composes them. Groups that cache oneDNN's
// primitives take the size of the thread team, on which primitives and their scratchpads depend.
#pragma once

#include <memory>

#include "framework/backends/backend.h"

namespace heddle::cpu {

std::unique_ptr<ElementwiseKernels> make_cpu_elementwise();
std::unique_ptr<RowKernels> make_cpu_rows();
std::unique_ptr<HeadKernels> make_cpu_head();
std::unique_ptr<ClassRowKernels> make_cpu_class_rows();
std::unique_ptr<TrainingKernels> make_cpu_training();
std::unique_ptr<LinearAlgebraKernels> make_cpu_linear_algebra(int threads);
std::unique_ptr<ConvolutionKernels> make_cpu_convolution(int threads, bool winograd);

/// oneDNN's version and the CPU instructions that it uses.
std::vector<std::pair<std::string, std::string>> onednn_versions();

}  // namespace heddle::cpu

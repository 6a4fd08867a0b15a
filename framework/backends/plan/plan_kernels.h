// The plan backend's kernels: they look at shapes, count floating-point operations and touch nothing.
#pragma once

#include <cstdint>
#include <memory>

#include "framework/backend.h"

namespace heddle::plan {

/// What the kernels of one backend add to.
struct FlopCounter {
  std::int64_t flops = 0;
};

std::unique_ptr<ElementwiseKernels> make_plan_elementwise(FlopCounter& counter);
std::unique_ptr<RowKernels> make_plan_rows(FlopCounter& counter);
std::unique_ptr<HeadKernels> make_plan_head(FlopCounter& counter);
std::unique_ptr<TrainingKernels> make_plan_training(FlopCounter& counter);
/// Workspaces are those of the cpu backend with so many threads.
std::unique_ptr<LinearAlgebraKernels> make_plan_linear_algebra(FlopCounter& counter, int threads);
std::unique_ptr<ConvolutionKernels> make_plan_convolution(FlopCounter& counter, int threads, bool winograd);

}  // namespace heddle::plan

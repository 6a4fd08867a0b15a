// How a backend gets its kernels. Its Context is what they share: cpu::Context, cuda::Context or plan::Context. The
// header of a theme declares each kernel twice: with its documentation in an interface (RowKernels), and as an override
// in a class template on the Context (RowKernelsOn), which is the declaration for all backends. The template has no
// bodies, so that no compiler instantiates a member by itself. A backend specialises each member for its Context, in
// namespace heddle and in whichever of its files it likes:
//
//   template <>
//   void RowKernelsOn<cpu::Context>::gather(const Tensor& x, const Tensor& index, Tensor& y) const { .. }
//
// The compiler reports a kernel that the template lacks (an abstract class) and a body that matches no declaration. The
// linker reports a kernel that a backend lacks, as it reads here where `gather` is not there for plan:
//
//   undefined symbol: heddle::RowKernelsOn<heddle::plan::Context>::gather(heddle::Tensor const&, ...) const
//
// A kernel that needs what a kernel of another theme computes shares a function with it (add_bias). If it called that
// kernel instead, the member would be used before it is specialised where a unity build has its file later.
#pragma once

#include <memory>

#include "framework/backends/backend.h"

namespace heddle {

template <class Context>
BackendKernels kernels_on(Context& context) {
  return {.elementwise = std::make_unique<ElementwiseKernelsOn<Context>>(context),
          .reduction = std::make_unique<ReductionKernelsOn<Context>>(context),
          .shape = std::make_unique<ShapeKernelsOn<Context>>(context),
          .linear_algebra = std::make_unique<LinearAlgebraKernelsOn<Context>>(context),
          .attention = std::make_unique<AttentionKernelsOn<Context>>(context),
          .convolution = std::make_unique<ConvolutionKernelsOn<Context>>(context),
          .normalization = std::make_unique<NormalizationKernelsOn<Context>>(context),
          .pooling = std::make_unique<PoolingKernelsOn<Context>>(context),
          .rows = std::make_unique<RowKernelsOn<Context>>(context),
          .head = std::make_unique<HeadKernelsOn<Context>>(context),
          .class_rows = std::make_unique<ClassRowKernelsOn<Context>>(context),
          .training = std::make_unique<TrainingKernelsOn<Context>>(context)};
}

}  // namespace heddle

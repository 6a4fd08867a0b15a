// Convolutions by cuDNN, or by their definition where it has none.
#include "framework/kernels/convolution.h"

#include <algorithm>

#include "framework/backends/cuda/context.h"
#include "framework/backends/cuda/convolution/convolutions.h"
#include "framework/backends/cuda/convolution/plain.h"
#include "framework/backends/cuda/elementwise/bias.h"

namespace heddle::cuda {

namespace {

/// A sum over nothing is 0.
void clear(const Context& context, Tensor& sums) {
  if (sums.numel() > 0)
    check(cudaMemsetAsync(sums.data(), 0, static_cast<std::size_t>(sums.bytes()), context.stream()), "cudaMemsetAsync");
}

/// cuDNN's kernels read 16 bytes at once; a view may begin anywhere.
bool is_aligned(const Tensor& x) {
  constexpr std::uintptr_t bytes = 16;
  return reinterpret_cast<std::uintptr_t>(x.data()) % bytes == 0;
}

}  // namespace

bool Convolutions::run(const ConvolutionGeometry& g, ConvolutionPart part, const Tensor& x, const Tensor& weight,
                       const Tensor& bias, const Tensor& y, const Tensor& workspace) {
  CudnnConvolution* const found = cudnn_.find({g, part, x.dtype()});
  if (found != nullptr && is_aligned(x) && is_aligned(weight) && is_aligned(y)) {
    void* const scratch = workspace.defined() ? workspace.data() : nullptr;
    if (bias.defined() && is_aligned(bias) &&
        cudnn_.run_with_bias(*found, x.data(), weight.data(), bias.data(), y.data(), scratch))
      return true;
    if (cudnn_.run(*found, x.data(), weight.data(), y.data(), scratch)) return false;
  }
  plain_.insert(ConvolutionCase{g, part, x.dtype()});
  plain_convolution(context_, g, part, x, weight, y);
  return false;
}

std::vector<ChosenConvolution> Convolutions::chosen() const {
  std::vector<ChosenConvolution> all = cudnn_.chosen();
  for (const ConvolutionCase& c : plain_) all.push_back(cuda::chosen(c, "plain"));
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace heddle::cuda

namespace heddle {

template <>
ConvolutionNeeds ConvolutionKernelsOn<cuda::Context>::convolution_needs(const ConvolutionGeometry& g,
                                                                        ConvolutionPart part, DType dtype) const {
  return context_.convolutions().needs({g, part, dtype});
}

template <>
void ConvolutionKernelsOn<cuda::Context>::pack_weight(const ConvolutionGeometry& /*g*/, ConvolutionPart /*part*/,
                                                      const Tensor& weight, Tensor& /*packed*/) const {
  fail("convolution: {} needs no packing", to_string(weight));
}

template <>
void ConvolutionKernelsOn<cuda::Context>::convolution_forward(const ConvolutionGeometry& g, const Tensor& x,
                                                              const Tensor& weight, const Tensor& bias, Tensor& y,
                                                              Tensor& workspace) const {
  bool adds_bias = false;
  if (g.is_empty())
    cuda::clear(context_, y);
  else
    adds_bias = context_.convolutions().run(g, ConvolutionPart::forward, x, weight, bias, y, workspace);
  if (bias.defined() && !adds_bias) cuda::add_bias(context_, bias, y);
}

template <>
void ConvolutionKernelsOn<cuda::Context>::convolution_backward_input(const ConvolutionGeometry& g, const Tensor& dy,
                                                                     const Tensor& weight, Tensor& dx,
                                                                     Tensor& workspace) const {
  if (g.is_empty()) return cuda::clear(context_, dx);
  context_.convolutions().run(g, ConvolutionPart::backward_input, dx, weight, {}, dy, workspace);
}

template <>
void ConvolutionKernelsOn<cuda::Context>::convolution_backward_weight(const ConvolutionGeometry& g, const Tensor& x,
                                                                      const Tensor& dy, bool /*adds*/, Tensor& dweight,
                                                                      Tensor& /*packed*/, Tensor& workspace) const {
  if (g.is_empty()) return cuda::clear(context_, dweight);
  context_.convolutions().run(g, ConvolutionPart::backward_weight, x, dweight, {}, dy, workspace);
}

template <>
std::vector<ChosenConvolution> ConvolutionKernelsOn<cuda::Context>::chosen_convolutions() const {
  return context_.convolutions().chosen();
}

}  // namespace heddle

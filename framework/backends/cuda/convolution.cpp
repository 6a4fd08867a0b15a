// Convolutions by cuDNN, or by their definition where it has none; normalisation and pooling by kernels of our own.
#include "framework/backends/cuda/convolution_parts.h"
#include "framework/backends/cuda/cuda_kernels.h"
#include "framework/backends/cuda/cudnn_convolution.h"

namespace heddle::cuda {

namespace {

/// What is left of a sum over nothing.
void clear(const Context& context, Tensor& sums) {
  if (sums.numel() > 0)
    check(cudaMemsetAsync(sums.data(), 0, static_cast<std::size_t>(sums.bytes()), context.stream()), "cudaMemsetAsync");
}

/// cuDNN's kernels read 16 bytes at once; a view may begin anywhere.
bool is_aligned(const Tensor& x) {
  constexpr std::uintptr_t bytes = 16;
  return reinterpret_cast<std::uintptr_t>(x.data()) % bytes == 0;
}

class CudaConvolution final : public ConvolutionKernels {
 public:
  explicit CudaConvolution(const Context& context) : context_(context), cudnn_(context) {}

  ConvolutionNeeds convolution_needs(const ConvolutionGeometry& g, ConvolutionPart part, DType dtype) const override {
    if (g.is_empty()) return {};
    const CudnnConvolution* const found = cudnn_.find(g, part, dtype);
    return {.workspace = found == nullptr ? 0 : static_cast<std::int64_t>(found->workspace)};
  }
  void pack_weight(const ConvolutionGeometry& /*g*/, ConvolutionPart /*part*/, const Tensor& weight,
                   Tensor& /*packed*/) const override {
    fail("convolution: {} needs no packing", to_string(weight));
  }
  void convolution_forward(const ConvolutionGeometry& g, const Tensor& x, const Tensor& weight, Tensor& y,
                           Tensor& workspace) const override {
    if (g.is_empty()) return clear(context_, y);
    run(g, ConvolutionPart::forward, x, weight, y, workspace);
  }
  void convolution_backward_input(const ConvolutionGeometry& g, const Tensor& dy, const Tensor& weight, Tensor& dx,
                                  Tensor& workspace) const override {
    if (g.is_empty()) return clear(context_, dx);
    run(g, ConvolutionPart::backward_input, dx, weight, dy, workspace);
  }
  void convolution_backward_weight(const ConvolutionGeometry& g, const Tensor& x, const Tensor& dy, bool /*adds*/,
                                   Tensor& dweight, Tensor& /*packed*/, Tensor& workspace) const override {
    if (g.is_empty()) return clear(context_, dweight);
    run(g, ConvolutionPart::backward_weight, x, dweight, dy, workspace);
  }

  void moments(const Tensor& x, Tensor& moments) const override { cuda::moments(context_, x, moments); }
  void normalize(const Tensor& x, const Tensor& mean, const Tensor& inverse_deviation, const Tensor& gamma,
                 const Tensor& beta, const Tensor& residual, NormActivation activation, const Tensor& slope,
                 Tensor& y) const override {
    cuda::normalize(context_, x, mean, inverse_deviation, gamma, beta, residual, activation, slope, y);
  }
  void normalize_backward_sums(const Tensor& x, const Tensor& mean, const Tensor& inverse_deviation,
                               const Tensor& gamma, const Tensor& beta, NormActivation activation, const Tensor& slope,
                               const Tensor& y, const Tensor& dy, Tensor& sums, Tensor& dresidual) const override {
    cuda::normalize_backward_sums(context_, x, mean, inverse_deviation, gamma, beta, activation, slope, y, dy, sums,
                                  dresidual);
  }
  void normalize_backward_input(const Tensor& x, const Tensor& mean, const Tensor& inverse_deviation,
                                const Tensor& gamma, const Tensor& beta, NormActivation activation, const Tensor& slope,
                                const Tensor& dy, const Tensor& sums, double count, Tensor& dx) const override {
    cuda::normalize_backward_input(context_, x, mean, inverse_deviation, gamma, beta, activation, slope, dy, sums,
                                   count, dx);
  }

  void pool(PoolOp op, const PoolGeometry& g, const Tensor& x, Tensor& y, Tensor& choice) const override {
    cuda::pool(context_, op, g, x, y, choice);
  }
  void pool_backward(PoolOp op, const PoolGeometry& g, const Tensor& dy, const Tensor& choice,
                     Tensor& dx) const override {
    cuda::pool_backward(context_, op, g, dy, choice, dx);
  }

 private:
  void run(const ConvolutionGeometry& g, ConvolutionPart part, const Tensor& x, const Tensor& weight, const Tensor& y,
           const Tensor& workspace) const {
    const CudnnConvolution* const found = cudnn_.find(g, part, x.dtype());
    const bool is_done =
        found != nullptr && is_aligned(x) && is_aligned(weight) && is_aligned(y) &&
        cudnn_.run(*found, x.data(), weight.data(), y.data(), workspace.defined() ? workspace.data() : nullptr);
    if (!is_done) plain_convolution(context_, g, part, x, weight, y);
  }

  const Context& context_;
  mutable CudnnConvolutions cudnn_;
};

}  // namespace

std::unique_ptr<ConvolutionKernels> make_cuda_convolution(const Context& context) {
  return std::make_unique<CudaConvolution>(context);
}

}  // namespace heddle::cuda

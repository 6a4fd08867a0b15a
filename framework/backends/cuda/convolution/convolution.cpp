// Convolutions by cuDNN, or by their definition where it has none; normalisation and pooling by kernels of our own.
#include "framework/backends/cuda/convolution/convolution.h"

#include <algorithm>
#include <set>

#include "framework/backends/cuda/convolution/cudnn_convolution.h"
#include "framework/backends/cuda/cuda_kernels.h"
#include "framework/backends/cuda/elementwise/elementwise.h"

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
    return cudnn_.needs({g, part, dtype});
  }
  void pack_weight(const ConvolutionGeometry& /*g*/, ConvolutionPart /*part*/, const Tensor& weight,
                   Tensor& /*packed*/) const override {
    fail("convolution: {} needs no packing", to_string(weight));
  }
  void convolution_forward(const ConvolutionGeometry& g, const Tensor& x, const Tensor& weight, const Tensor& bias,
                           Tensor& y, Tensor& workspace) const override {
    bool adds_bias = false;
    if (g.is_empty())
      clear(context_, y);
    else
      adds_bias = run(g, ConvolutionPart::forward, x, weight, bias, y, workspace);
    if (bias.defined() && !adds_bias) binary(context_, BinaryOp::add, y, bias, y);
  }
  void convolution_backward_input(const ConvolutionGeometry& g, const Tensor& dy, const Tensor& weight, Tensor& dx,
                                  Tensor& workspace) const override {
    if (g.is_empty()) return clear(context_, dx);
    run(g, ConvolutionPart::backward_input, dx, weight, {}, dy, workspace);
  }
  void convolution_backward_weight(const ConvolutionGeometry& g, const Tensor& x, const Tensor& dy, bool /*adds*/,
                                   Tensor& dweight, Tensor& /*packed*/, Tensor& workspace) const override {
    if (g.is_empty()) return clear(context_, dweight);
    run(g, ConvolutionPart::backward_weight, x, dweight, {}, dy, workspace);
  }
  std::vector<ChosenConvolution> chosen_convolutions() const override {
    std::vector<ChosenConvolution> all = cudnn_.chosen();
    for (const ConvolutionCase& c : plain_) all.push_back(chosen(c, "plain"));
    std::sort(all.begin(), all.end());
    return all;
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
  /// Whether the bias, if there is one, was added too.
  bool run(const ConvolutionGeometry& g, ConvolutionPart part, const Tensor& x, const Tensor& weight,
           const Tensor& bias, const Tensor& y, const Tensor& workspace) const {
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

  const Context& context_;
  mutable CudnnConvolutions cudnn_;
  mutable std::set<ConvolutionCase> plain_;  // for which cuDNN had nothing, or whose operands it does not read
};

}  // namespace

std::unique_ptr<ConvolutionKernels> make_cuda_convolution(const Context& context) {
  return std::make_unique<CudaConvolution>(context);
}

}  // namespace heddle::cuda

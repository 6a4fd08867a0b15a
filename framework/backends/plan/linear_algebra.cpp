#include "framework/backends/plan/plan_kernels.h"

namespace heddle::plan {

namespace {

/// As the cpu does: added to what it has multiplied, if there is one.
void add_bias(WorkCounter& counter, const Tensor& bias, const Tensor& y) {
  if (bias.defined()) counter.kernel(y.numel(), y, bias, y);
}

class PlanLinearAlgebra final : public LinearAlgebraKernels {
 public:
  PlanLinearAlgebra(WorkCounter& counter, KernelNeeds& needs) : counter_(counter), needs_(needs) {}

  void gemm(const Tensor& a, bool transpose_a, const Tensor& b, bool /*transpose_b*/, double /*alpha*/, double beta,
            const Tensor& bias, Tensor& c, Tensor& /*workspace*/) const override {
    counter_.kernel(2 * c.numel() * a.shape()[transpose_a ? 0 : 1], a, b, beta == 0 ? Tensor() : c, c);
    add_bias(counter_, bias, c);
  }
  std::int64_t gemm_workspace(const Tensor& a, bool transpose_a, const Tensor& /*b*/, bool transpose_b, double alpha,
                              double beta, const Tensor& c) const override {
    return needs_.gemm(c.shape()[0], c.shape()[1], a.shape()[transpose_a ? 0 : 1], transpose_a, transpose_b, alpha,
                       beta, a.dtype(), c.dtype());
  }
  std::int64_t packed_bytes(std::int64_t m, const Tensor& b, bool transpose_b) const override {
    return needs_.packed(m, b.shape()[transpose_b ? 0 : 1], b.shape()[transpose_b ? 1 : 0], b.dtype());
  }
  void pack(std::int64_t /*m*/, const Tensor& b, bool /*transpose_b*/, Tensor& packed) const override {
    counter_.kernel(0, b, packed);
  }
  void packed_gemm(const Tensor& a, const Tensor& packed, double beta, Tensor& c,
                   Tensor& /*workspace*/) const override {
    counter_.kernel(2 * c.numel() * a.shape()[1], a, packed, beta == 0 ? Tensor() : c, c);
  }
  std::int64_t packed_gemm_workspace(const Tensor& a, double beta, const Tensor& c) const override {
    return needs_.packed_gemm(c.shape()[0], c.shape()[1], a.shape()[1], beta, c.dtype());
  }
  bool is_bf16_fast() const override { return needs_.is_bf16_fast(); }

 private:
  WorkCounter& counter_;
  KernelNeeds& needs_;
};

class PlanConvolution final : public ConvolutionKernels {
 public:
  PlanConvolution(WorkCounter& counter, KernelNeeds& needs) : counter_(counter), needs_(needs) {}

  ConvolutionNeeds convolution_needs(const ConvolutionGeometry& g, ConvolutionPart part, DType dtype) const override {
    return needs_.convolution(g, part, dtype);
  }
  void pack_weight(const ConvolutionGeometry& /*g*/, ConvolutionPart /*part*/, const Tensor& weight,
                   Tensor& packed) const override {
    counter_.kernel(0, weight, packed);
  }
  void convolution_forward(const ConvolutionGeometry& g, const Tensor& x, const Tensor& weight, const Tensor& bias,
                           Tensor& y, Tensor& /*workspace*/) const override {
    counter_.kernel(flops(g), x, weight, y);
    add_bias(counter_, bias, y);
  }
  void convolution_backward_input(const ConvolutionGeometry& g, const Tensor& dy, const Tensor& weight, Tensor& dx,
                                  Tensor& /*workspace*/) const override {
    counter_.kernel(flops(g), dy, weight, dx);
  }
  void convolution_backward_weight(const ConvolutionGeometry& g, const Tensor& x, const Tensor& dy, bool /*adds*/,
                                   Tensor& dweight, Tensor& /*packed*/, Tensor& /*workspace*/) const override {
    counter_.kernel(flops(g), x, dy, dweight);
  }
  std::vector<ChosenConvolution> chosen_convolutions() const override { return {}; }

  void moments(const Tensor& x, Tensor& /*moments*/) const override { counter_.kernel(4 * x.numel(), x); }
  void normalize(const Tensor& x, const Tensor& /*mean*/, const Tensor& /*inverse_deviation*/, const Tensor& /*gamma*/,
                 const Tensor& /*beta*/, const Tensor& residual, NormActivation activation, const Tensor& /*slope*/,
                 Tensor& y) const override {
    counter_.kernel((2 + (residual.defined() ? 1 : 0) + (activation == NormActivation::none ? 0 : 1)) * x.numel(), x,
                    residual, y);
  }
  void normalize_backward_sums(const Tensor& x, const Tensor& /*mean*/, const Tensor& /*inverse_deviation*/,
                               const Tensor& /*gamma*/, const Tensor& /*beta*/, NormActivation activation,
                               const Tensor& /*slope*/, const Tensor& y, const Tensor& dy, Tensor& /*sums*/,
                               Tensor& dresidual) const override {
    counter_.kernel((5 + (activation == NormActivation::none ? 0 : 1)) * x.numel(), x, y, dy, dresidual);
  }
  void normalize_backward_input(const Tensor& x, const Tensor& /*mean*/, const Tensor& /*inverse_deviation*/,
                                const Tensor& /*gamma*/, const Tensor& /*beta*/, NormActivation activation,
                                const Tensor& /*slope*/, const Tensor& dy, const Tensor& /*sums*/, double count,
                                Tensor& dx) const override {
    counter_.kernel(((count == 0 ? 1 : 5) + (activation == NormActivation::none ? 0 : 1)) * x.numel(), x, dy, dx);
  }

  void pool(PoolOp /*op*/, const PoolGeometry& g, const Tensor& x, Tensor& y, Tensor& choice) const override {
    counter_.kernel(g.kernel.height * g.kernel.width * y.numel(), x, y, choice);
  }
  void pool_backward(PoolOp op, const PoolGeometry& g, const Tensor& dy, const Tensor& choice,
                     Tensor& dx) const override {
    counter_.kernel((op == PoolOp::max ? 1 : g.kernel.height * g.kernel.width) * dy.numel(), dy, choice, dx);
  }

 private:
  static std::int64_t flops(const ConvolutionGeometry& g) {
    return 2 * g.batch * g.output.height * g.output.width * g.out_channels * g.kernel.height * g.kernel.width *
           (g.in_channels / g.groups);
  }

  WorkCounter& counter_;
  KernelNeeds& needs_;
};

}  // namespace

std::unique_ptr<LinearAlgebraKernels> make_plan_linear_algebra(WorkCounter& counter, KernelNeeds& needs) {
  return std::make_unique<PlanLinearAlgebra>(counter, needs);
}
std::unique_ptr<ConvolutionKernels> make_plan_convolution(WorkCounter& counter, KernelNeeds& needs) {
  return std::make_unique<PlanConvolution>(counter, needs);
}

}  // namespace heddle::plan

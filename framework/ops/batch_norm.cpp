#include <vector>

#include "framework/device.h"
#include "framework/error.h"
#include "framework/ops/normalization.h"

namespace heddle {

namespace {

void check(const Variable& x, const Variable& gamma, const Variable& beta, const NormEpilogue& epilogue) {
  const Tensor& value = x.value();
  if (value.shape().rank() < 2 || !is_floating(value.dtype()))
    fail<InputError>("batch_norm: expected a floating [.., C], got {}", to_string(value));
  const Shape channels{value.shape().back()};
  const DType type = compute_dtype(value.dtype());
  const auto check_channels = [&](const char* name, const Variable& parameter) {
    if (parameter.defined() && (parameter.shape() != channels || parameter.dtype() != type))
      fail<InputError>("batch_norm: {} for {} must be {}, got {}", name, to_string(value), to_string(type, channels),
                       to_string(parameter.value()));
  };
  check_channels("gamma", gamma);
  check_channels("beta", beta);
  check_channels("slope", epilogue.slope);
  if (epilogue.slope.defined() != (epilogue.activation == NormActivation::prelu))
    fail<InputError>("batch_norm: a slope goes with prelu and with nothing else");
  const Variable& residual = epilogue.residual;
  if (!residual.defined()) return;
  if (epilogue.activation == NormActivation::prelu)
    fail<InputError>("batch_norm: a residual goes with relu or no activation, not with prelu");
  if (residual.shape() != value.shape() || residual.dtype() != value.dtype())
    fail<InputError>("batch_norm: expected a residual {}, got {}", to_string(value), to_string(residual.value()));
}

/// 1 / sqrt(factor * x + epsilon).
Tensor inverse_deviation(const Tensor& x, double factor, double epsilon) {
  const ElementwiseKernels& kernels = x.device().backend().elementwise();
  Tensor deviation = Tensor::empty_like(x);
  kernels.fill(deviation, epsilon);
  kernels.scale_add(factor, x, 1, deviation);
  kernels.unary(UnaryOp::sqrt, deviation, deviation);
  Tensor result = Tensor::empty_like(x);
  kernels.fill(result, 1);
  kernels.binary(BinaryOp::divide, result, deviation, result);
  return result;
}

/// `count`: values a channel that the statistics came from; 0: they are constants.
Variable normalize(const Variable& x_in, const Tensor& mean, const Tensor& inverse, const Variable& gamma_in,
                   const Variable& beta_in, const NormEpilogue& epilogue, double count) {
  const Tensor x = x_in.value();
  const Tensor gamma = gamma_in.value();
  const Tensor beta = beta_in.value();
  const Tensor slope = epilogue.slope.value();
  const NormActivation activation = epilogue.activation;
  const bool has_residual = epilogue.residual.defined();
  Tensor result = Tensor::empty_like(x);
  x.device().backend().convolution().normalize(x, mean, inverse, gamma, beta, epilogue.residual.value(), activation,
                                               slope, result);
  // Where a residual was added, x alone does not tell what the activation let through.
  const bool mask_from_output = has_residual && activation == NormActivation::relu;
  const Tensor y = mask_from_output ? result : Tensor();
  return record(
      result, {x_in, gamma_in, beta_in, epilogue.slope, epilogue.residual}, [=](const Tensor& dy, Wanted wanted) {
        const ConvolutionKernels& kernels = dy.device().backend().convolution();
        const std::int64_t channels = x.shape().back();
        // A gradient that nobody else holds is overwritten: less memory, and less of it moved.
        const auto like_gradient = [&] { return dy.is_sole_owner() ? dy : Tensor::empty_like(dy); };
        Tensor passed = mask_from_output ? like_gradient() : Tensor();
        const Tensor& g = mask_from_output ? passed : dy;
        Tensor sums = Tensor::empty(dy.device(), {3, channels}, mean.dtype());
        kernels.normalize_backward_sums(x, mean, inverse, gamma, beta, activation, slope, y, dy, sums, passed);
        const auto row = [&](std::int64_t i) { return sums.rows(i, i + 1).reshape({channels}); };
        Gradients gradients(5);
        if (wanted[0]) {
          gradients[0] = has_residual ? Tensor::empty_like(x) : like_gradient();
          kernels.normalize_backward_input(x, mean, inverse, gamma, beta,
                                           mask_from_output ? NormActivation::none : activation, slope, g, sums, count,
                                           gradients[0]);
        }
        if (wanted[1]) gradients[1] = row(1);
        if (wanted[2]) gradients[2] = row(0);
        if (wanted[3]) gradients[3] = row(2);
        if (wanted[4]) gradients[4] = g;
        return gradients;
      });
}

}  // namespace

Variable batch_norm(const Variable& x, const Variable& gamma, const Variable& beta, double epsilon,
                    const NormEpilogue& epilogue, Tensor& moments) {
  check(x, gamma, beta, epilogue);
  const std::int64_t channels = x.shape().back();
  const std::int64_t count = x.shape().product(0, x.shape().rank() - 1);
  if (count == 1) fail<InputError>("batch_norm: {} has one value a channel; statistics need two", to_string(x.value()));
  const DType type = compute_dtype(x.dtype());
  if (!moments.defined()) moments = Tensor::empty(x.device(), {2, channels}, type);
  if (moments.shape() != Shape{2, channels} || moments.dtype() != type)
    fail<InputError>("batch_norm: expected moments {}, got {}", to_string(type, Shape{2, channels}),
                     to_string(moments));
  x.device().backend().convolution().moments(x.value(), moments);
  // The graph keeps its own copy: the caller's goes its own way through the ranks.
  const Tensor mean = moments.rows(0, 1).clone().reshape({channels});
  const double share = count == 0 ? 0.0 : 1.0 / static_cast<double>(count);
  const Tensor inverse = inverse_deviation(moments.rows(1, 2).reshape({channels}), share, epsilon);
  return normalize(x, mean, inverse, gamma, beta, epilogue, static_cast<double>(count));
}

Variable batch_norm_inference(const Variable& x, const Tensor& mean, const Tensor& variance, const Variable& gamma,
                              const Variable& beta, double epsilon, const NormEpilogue& epilogue) {
  check(x, gamma, beta, epilogue);
  const Shape channels{x.shape().back()};
  const DType type = compute_dtype(x.dtype());
  for (const Tensor& statistic : {mean, variance})
    if (statistic.shape() != channels || statistic.dtype() != type)
      fail<InputError>("batch_norm: expected statistics {}, got {}", to_string(type, channels), to_string(statistic));
  return normalize(x, mean, inverse_deviation(variance, 1, epsilon), gamma, beta, epilogue, 0);
}

}  // namespace heddle

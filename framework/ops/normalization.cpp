#include "framework/ops/normalization.h"

#include "framework/ops/checks.h"
#include "framework/tensors/device.h"

namespace heddle {

namespace {

void check_batch_norm(const Variable& x, const Variable& gamma, const Variable& beta, const NormEpilogue& epilogue) {
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

/// The values that statistics came from.
struct Population {
  double count = 0;  // values per channel on this rank; 0: the statistics are constants
  std::shared_ptr<StatisticsExchange> exchange{};
  Tensor total{};  // [1]: with an exchange, values per channel on all its ranks
};

/// The sums over all ranks, divided by the number of values: the count stays on the device.
Tensor mean_over_ranks(const Tensor& sums, const Population& population) {
  const MemoryScope scope(sums.device(), Category::communication);
  const Tensor all = population.exchange->sum(sums);
  Tensor means = Tensor::empty_like(all);
  sums.device().backend().elementwise().binary(BinaryOp::divide, all, population.total, means);
  return means;
}

Variable normalize(const Variable& x_in, const Tensor& mean, const Tensor& inverse, const Variable& gamma_in,
                   const Variable& beta_in, const NormEpilogue& epilogue, const Population& population) {
  const Tensor x = x_in.value();
  const ChannelNorm norm{.x = x,
                         .mean = mean,
                         .inverse_deviation = inverse,
                         .gamma = gamma_in.value(),
                         .beta = beta_in.value(),
                         .activation = epilogue.activation,
                         .slope = epilogue.slope.value()};
  const NormActivation activation = epilogue.activation;
  const bool has_residual = epilogue.residual.defined();
  Tensor result = Tensor::empty_like(x);
  x.device().backend().normalization().normalize(norm, epilogue.residual.value(), result);
  // Where a residual was added, x alone does not determine what the activation passed.
  const bool mask_from_output = has_residual && activation == NormActivation::relu;
  const Tensor y = mask_from_output ? result : Tensor();
  Vjp vjp = [=](const Tensor& dy, Wanted asked) {
    // One pass over x and dy gives all sums, and the gradient is overwritten.
    const Wanted wanted = asked.ever();
    const NormalizationKernels& kernels = dy.device().backend().normalization();
    const std::int64_t channels = x.shape().back();
    // A gradient that no other handle shares is overwritten, which needs and moves less memory.
    const auto like_gradient = [&] { return dy.is_sole_owner() ? dy : Tensor::empty_like(dy); };
    Tensor passed = mask_from_output ? like_gradient() : Tensor();
    const Tensor& g = mask_from_output ? passed : dy;
    Tensor sums = Tensor::empty(dy.device(), {3, channels}, mean.dtype());
    kernels.normalize_backward_sums(norm, y, dy, sums, passed);
    const auto row = [&](std::int64_t i) { return sums.rows(i, i + 1).reshape({channels}); };
    Gradients gradients(5);
    if (wanted[0]) {
      const bool is_shared = population.exchange != nullptr;
      // The sums of g and of g * xhat; the slope's stays here.
      const Tensor totals = is_shared ? mean_over_ranks(sums.rows(0, 2), population) : sums;
      gradients[0] = has_residual ? Tensor::empty_like(x) : like_gradient();
      ChannelNorm passing = norm;
      if (mask_from_output) passing.activation = NormActivation::none;
      kernels.normalize_backward_input(passing, g, totals, is_shared ? 1 : population.count, gradients[0]);
    }
    if (wanted[1]) gradients[1] = row(1);
    if (wanted[2]) gradients[2] = row(0);
    if (wanted[3]) gradients[3] = row(2);
    if (wanted[4]) gradients[4] = g;
    return gradients;
  };
  const std::initializer_list<Variable> inputs{x_in, gamma_in, beta_in, epilogue.slope, epilogue.residual};
  return population.exchange ? record_collective(std::move(result), inputs, std::move(vjp))
                             : record(std::move(result), inputs, std::move(vjp));
}

/// This rank's statistics of x -> those of all ranks' rows.
void combine(Tensor& statistics, StatisticsExchange& exchange, const Tensor& x) {
  const MemoryScope scope(x.device(), Category::communication);
  const Tensor groups = exchange.gather(statistics.reshape({1, -1}));
  x.device().backend().normalization().combine_moments(groups, statistics);
  // The device is read only where this rank cannot decide by itself. All ranks see the same values, and fail together.
  const bool is_uncertain = x.shape().product(0, x.shape().rank() - 1) < 2 && x.device().has_data();
  if (is_uncertain && statistics.rows(0, 1).item() == 1)
    fail<InputError>("batch_norm: {} and the other ranks' rows have one value per channel; statistics need two",
                     to_string(x));
}

std::int64_t rows_of(std::string_view what, const Tensor& x) {
  check_floating(what, x);
  if (x.shape().rank() == 0) fail<InputError>("{}: {} has no rows", what, to_string(x));
  return x.shape().product(0, x.shape().rank() - 1);
}

}  // namespace

Variable batch_norm(const Variable& x, const Variable& gamma, const Variable& beta, double epsilon,
                    const NormEpilogue& epilogue, Tensor& statistics,
                    const std::shared_ptr<StatisticsExchange>& exchange) {
  check_batch_norm(x, gamma, beta, epilogue);
  Device& device = x.device();
  const std::int64_t channels = x.shape().back();
  const std::int64_t width = 2 * channels + 1;
  const std::int64_t count = x.shape().product(0, x.shape().rank() - 1);
  if (count == 1 && !exchange)
    fail<InputError>("batch_norm: {} has one value per channel; statistics need two", to_string(x.value()));
  const DType type = compute_dtype(x.dtype());
  if (!statistics.defined()) statistics = Tensor::empty(device, {width}, type);
  if (statistics.shape() != Shape{width} || statistics.dtype() != type)
    fail<InputError>("batch_norm: expected statistics {}, got {}", to_string(type, Shape{width}),
                     to_string(statistics));
  statistics.rows(0, 1).fill(static_cast<double>(count));
  Tensor moments = statistics.rows(1, width).reshape({2, channels});
  device.backend().normalization().moments(x.value(), moments);
  if (exchange) combine(statistics, *exchange, x.value());
  // The graph keeps its own copy: the caller's goes its own way through the ranks.
  const Tensor mean = moments.rows(0, 1).clone().reshape({channels});
  const Tensor squares = moments.rows(1, 2).reshape({channels});
  if (!exchange) {
    const double share = count == 0 ? 0.0 : 1.0 / static_cast<double>(count);
    const Tensor inverse = inverse_deviation(squares, share, epsilon);
    return normalize(x, mean, inverse, gamma, beta, epilogue, {.count = static_cast<double>(count)});
  }
  const Tensor total = statistics.rows(0, 1).clone();
  Tensor variance = Tensor::empty_like(mean);
  device.backend().elementwise().binary(BinaryOp::divide, squares, total, variance);
  return normalize(x, mean, inverse_deviation(variance, 1, epsilon), gamma, beta, epilogue,
                   {.count = static_cast<double>(count), .exchange = exchange, .total = total});
}

Variable batch_norm_inference(const Variable& x, const Tensor& mean, const Tensor& variance, const Variable& gamma,
                              const Variable& beta, double epsilon, const NormEpilogue& epilogue) {
  check_batch_norm(x, gamma, beta, epilogue);
  const Shape channels{x.shape().back()};
  const DType type = compute_dtype(x.dtype());
  for (const Tensor& statistic : {mean, variance})
    if (statistic.shape() != channels || statistic.dtype() != type)
      fail<InputError>("batch_norm: expected statistics {}, got {}", to_string(type, channels), to_string(statistic));
  return normalize(x, mean, inverse_deviation(variance, 1, epsilon), gamma, beta, epilogue, {});
}

Variable layer_norm(const Variable& x, const Variable& gamma, const Variable& beta, double epsilon) {
  const std::int64_t rows = rows_of("layer_norm", x.value());
  const DType parameters = compute_dtype(x.dtype());
  const Shape channels{x.shape().back()};
  if (gamma.defined()) check_tensor("layer_norm", "gamma", gamma.value(), parameters, channels);
  if (beta.defined()) check_tensor("layer_norm", "beta", beta.value(), parameters, channels);
  Tensor y = Tensor::empty_like(x.value());
  Tensor statistics = Tensor::empty(x.device(), {2, rows}, parameters);
  x.device().backend().normalization().layer_norm(x.value(), gamma.value(), beta.value(), epsilon, y, statistics);
  return record(y, {x, gamma, beta},
                [x = x.value(), gamma = gamma.value(), statistics, channels](const Tensor& dy, Wanted asked) {
                  const Wanted wanted = asked.ever();  // all gradients in one pass; then neither x nor dy is kept
                  const auto parameter = [&] { return Tensor::empty(x.device(), channels, statistics.dtype()); };
                  Tensor dx = wanted[0] ? Tensor::empty_like(x) : Tensor();
                  Tensor dgamma = wanted[1] ? parameter() : Tensor();
                  Tensor dbeta = wanted[2] ? parameter() : Tensor();
                  x.device().backend().normalization().layer_norm_backward(x, gamma, statistics, dy, dx, dgamma, dbeta);
                  return Gradients{dx, dgamma, dbeta};
                });
}

Variable l2_normalize(const Variable& x, double epsilon) {
  const std::int64_t rows = rows_of("l2_normalize", x.value());
  Tensor y = Tensor::empty_like(x.value());
  Tensor inverse_norm = Tensor::empty(x.device(), {rows}, compute_dtype(x.dtype()));
  x.device().backend().normalization().l2_normalize(x.value(), epsilon, y, inverse_norm);
  return record(y, {x}, [x = x.value(), inverse_norm](const Tensor& dy, Wanted) {
    Tensor dx = Tensor::empty_like(x);
    x.device().backend().normalization().l2_normalize_backward(x, inverse_norm, dy, dx);
    return Gradients{dx};
  });
}

}  // namespace heddle

#include "framework/ops/normalization.h"

#include "framework/ops/checks.h"
#include "framework/tensors/device.h"

namespace heddle {

namespace {

void check_batch_norm(const Variable& x, const Variable& gamma, const Variable& beta, const NormEpilogue& epilogue) {
  const Tensor& value = x.value();
  if (value.shape().rank() < 2 || !is_floating(value.dtype()))
    fail<InputError>("batch_norm: expected a floating-point [.., C], got {}", to_string(value));
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
    fail<InputError>("batch_norm: only the activation prelu takes a slope");
  const Variable& residual = epilogue.residual;
  if (!residual.defined()) return;
  if (epilogue.activation == NormActivation::prelu)
    fail<InputError>("batch_norm: a residual goes with relu or no activation, not with prelu");
  if (residual.shape() != value.shape() || residual.dtype() != value.dtype())
    fail<InputError>("batch_norm: expected a residual {}, got {}", to_string(value), to_string(residual.value()));
}

/// 1 / sqrt(factor * variance + epsilon).
Tensor inverse_deviation(const Tensor& variance, double factor, double epsilon) {
  Tensor inverse = Tensor::empty_like(variance);
  variance.device().backend().normalization().inverse_deviation(variance, factor, epsilon, inverse);
  return inverse;
}

/// What x is normalised by, [C], and the values that this came from.
struct Statistics {
  Tensor mean;
  Tensor inverse_deviation;
  double count = 0;  // values per channel on this rank; 0: the statistics are constants
  std::shared_ptr<StatisticsGroup> group{};
  Tensor total{};  // [1]: with a group, values per channel on all its ranks
};

/// The sums over all ranks, divided by the number of values: the count stays on the device.
Tensor mean_over_ranks(const Tensor& sums, const Statistics& statistics) {
  const MemoryScope scope(sums.device(), Category::communication);
  const Tensor all = statistics.group->sum(sums);
  Tensor means = Tensor::empty_like(all);
  sums.device().backend().elementwise().binary(BinaryOp::divide, all, statistics.total, means);
  return means;
}

/// The vjp of `normalize`: the gradients of x, gamma, beta, slope and residual. One pass over x and dy gives all sums,
/// and a gradient that no other handle shares is overwritten, which needs and moves less memory.
struct NormalizeBackward {
  ChannelNorm norm;
  Statistics statistics;
  bool has_residual;
  Tensor y;  // where a residual was added, x alone does not determine what a relu passed

  Gradients operator()(const Tensor& dy, Wanted asked) const {
    const Wanted wanted = asked.ever();
    const NormalizationKernels& kernels = dy.device().backend().normalization();
    const std::int64_t channels = norm.x.shape().back();
    const auto like_gradient = [&] { return dy.is_sole_owner() ? dy : Tensor::empty_like(dy); };
    Tensor passed = y.defined() ? like_gradient() : Tensor();
    const Tensor& g = y.defined() ? passed : dy;
    Tensor sums = Tensor::empty(dy.device(), {3, channels}, norm.mean.dtype());
    kernels.normalize_backward_sums(norm, y, dy, sums, passed);
    const auto row = [&](std::int64_t i) { return sums.rows(i, i + 1).reshape({channels}); };
    Gradients gradients(5);
    if (wanted[0]) {
      gradients[0] = has_residual ? Tensor::empty_like(norm.x) : like_gradient();
      input_gradient(g, sums, gradients[0]);
    }
    if (wanted[1]) gradients[1] = row(1);
    if (wanted[2]) gradients[2] = row(0);
    if (wanted[3]) gradients[3] = row(2);
    if (wanted[4]) gradients[4] = g;
    return gradients;
  }

 private:
  /// `sums` are this rank's; those of g and of g * xhat are added up over the ranks.
  void input_gradient(const Tensor& g, const Tensor& sums, Tensor& dx) const {
    const bool is_shared = statistics.group != nullptr;
    const Tensor totals = is_shared ? mean_over_ranks(sums.rows(0, 2), statistics) : sums;
    ChannelNorm passing = norm;
    if (y.defined()) passing.activation = NormActivation::none;
    g.device().backend().normalization().normalize_backward_input(passing, g, totals, is_shared ? 1 : statistics.count,
                                                                  dx);
  }
};

Variable normalize(const Variable& x, const Statistics& statistics, const Variable& gamma, const Variable& beta,
                   const NormEpilogue& epilogue) {
  const ChannelNorm norm{.x = x.value(),
                         .mean = statistics.mean,
                         .inverse_deviation = statistics.inverse_deviation,
                         .gamma = gamma.value(),
                         .beta = beta.value(),
                         .activation = epilogue.activation,
                         .slope = epilogue.slope.value()};
  const bool has_residual = epilogue.residual.defined();
  Tensor result = Tensor::empty_like(x.value());
  x.device().backend().normalization().normalize(norm, epilogue.residual.value(), result);
  const bool keeps_output = has_residual && epilogue.activation == NormActivation::relu;
  Vjp vjp = NormalizeBackward{norm, statistics, has_residual, keeps_output ? result : Tensor()};
  const std::initializer_list<Variable> inputs{x, gamma, beta, epilogue.slope, epilogue.residual};
  return statistics.group ? record_collective(std::move(result), inputs, std::move(vjp))
                          : record(std::move(result), inputs, std::move(vjp));
}

/// This rank's statistics of x -> those of all ranks' rows.
void combine(Tensor& statistics, StatisticsGroup& group, const Tensor& x) {
  const MemoryScope scope(x.device(), Category::communication);
  const Tensor groups = group.gather(statistics.reshape({1, -1}));
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
                    const NormEpilogue& epilogue, Tensor& statistics, const std::shared_ptr<StatisticsGroup>& group) {
  check_batch_norm(x, gamma, beta, epilogue);
  Device& device = x.device();
  const std::int64_t channels = x.shape().back();
  const std::int64_t width = 2 * channels + 1;
  const std::int64_t count = x.shape().product(0, x.shape().rank() - 1);
  if (count == 1 && !group)
    fail<InputError>("batch_norm: {} has one value per channel; statistics need two", to_string(x.value()));
  const DType type = compute_dtype(x.dtype());
  if (!statistics.defined()) statistics = Tensor::empty(device, {width}, type);
  if (statistics.shape() != Shape{width} || statistics.dtype() != type)
    fail<InputError>("batch_norm: expected statistics {}, got {}", to_string(type, Shape{width}),
                     to_string(statistics));
  statistics.rows(0, 1).fill(static_cast<double>(count));
  Tensor moments = statistics.rows(1, width).reshape({2, channels});
  device.backend().normalization().moments(x.value(), moments);
  if (group) combine(statistics, *group, x.value());
  // The graph keeps its own copy: the caller's goes its own way through the ranks.
  const Tensor mean = moments.rows(0, 1).clone().reshape({channels});
  const Tensor squares = moments.rows(1, 2).reshape({channels});
  if (!group) {
    const double share = count == 0 ? 0.0 : 1.0 / static_cast<double>(count);
    const Tensor inverse = inverse_deviation(squares, share, epsilon);
    return normalize(x, {mean, inverse, static_cast<double>(count)}, gamma, beta, epilogue);
  }
  const Tensor total = statistics.rows(0, 1).clone();
  Tensor variance = Tensor::empty_like(mean);
  device.backend().elementwise().binary(BinaryOp::divide, squares, total, variance);
  const Tensor inverse = inverse_deviation(variance, 1, epsilon);
  return normalize(x, {mean, inverse, static_cast<double>(count), group, total}, gamma, beta, epilogue);
}

Variable batch_norm_inference(const Variable& x, const Tensor& mean, const Tensor& variance, const Variable& gamma,
                              const Variable& beta, double epsilon, const NormEpilogue& epilogue) {
  check_batch_norm(x, gamma, beta, epilogue);
  const Shape channels{x.shape().back()};
  const DType type = compute_dtype(x.dtype());
  for (const Tensor& statistic : {mean, variance})
    if (statistic.shape() != channels || statistic.dtype() != type)
      fail<InputError>("batch_norm: expected statistics {}, got {}", to_string(type, channels), to_string(statistic));
  return normalize(x, {mean, inverse_deviation(variance, 1, epsilon)}, gamma, beta, epilogue);
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

#include "framework/ops/normalization.h"

#include "framework/ops/checks.h"
#include "framework/tensors/device.h"

namespace heddle {

namespace {

std::int64_t rows_of(std::string_view what, const Tensor& x) {
  check_floating(what, x);
  if (x.shape().rank() == 0) fail<InputError>("{}: {} has no rows", what, to_string(x));
  return x.shape().product(0, x.shape().rank() - 1);
}

}  // namespace

Variable layer_norm(const Variable& x, const Variable& gamma, const Variable& beta, double epsilon) {
  const std::int64_t rows = rows_of("layer_norm", x.value());
  const DType parameters = compute_dtype(x.dtype());
  const Shape channels{x.shape().back()};
  if (gamma.defined()) check_tensor("layer_norm", "gamma", gamma.value(), parameters, channels);
  if (beta.defined()) check_tensor("layer_norm", "beta", beta.value(), parameters, channels);
  Tensor y = Tensor::empty_like(x.value());
  Tensor statistics = Tensor::empty(x.device(), {2, rows}, parameters);
  x.device().backend().rows().layer_norm(x.value(), gamma.value(), beta.value(), epsilon, y, statistics);
  return record(y, {x, gamma, beta},
                [x = x.value(), gamma = gamma.value(), statistics, channels](const Tensor& dy, Wanted asked) {
                  const Wanted wanted = asked.ever();  // in one pass; then neither x nor dy is kept
                  const auto parameter = [&] { return Tensor::empty(x.device(), channels, statistics.dtype()); };
                  Tensor dx = wanted[0] ? Tensor::empty_like(x) : Tensor();
                  Tensor dgamma = wanted[1] ? parameter() : Tensor();
                  Tensor dbeta = wanted[2] ? parameter() : Tensor();
                  x.device().backend().rows().layer_norm_backward(x, gamma, statistics, dy, dx, dgamma, dbeta);
                  return Gradients{dx, dgamma, dbeta};
                });
}

Variable l2_normalize(const Variable& x, double epsilon) {
  const std::int64_t rows = rows_of("l2_normalize", x.value());
  Tensor y = Tensor::empty_like(x.value());
  Tensor inverse_norm = Tensor::empty(x.device(), {rows}, compute_dtype(x.dtype()));
  x.device().backend().rows().l2_normalize(x.value(), epsilon, y, inverse_norm);
  return record(y, {x}, [x = x.value(), inverse_norm](const Tensor& dy, Wanted) {
    Tensor dx = Tensor::empty_like(x);
    x.device().backend().rows().l2_normalize_backward(x, inverse_norm, dy, dx);
    return Gradients{dx};
  });
}

}  // namespace heddle

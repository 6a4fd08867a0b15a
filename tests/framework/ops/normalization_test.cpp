#include "framework/ops/normalization.h"

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "framework/error.h"
#include "framework/scalars/random.h"
#include "framework/tensors/device.h"
#include "tests/support/compare/close_to.h"
#include "tests/support/devices.h"

namespace heddle::test::normalization_test {
namespace {

std::vector<double> draw(std::int64_t count, std::uint64_t index, double mean = 0) {
  RandomStream stream({.seed = 6}, Purpose::test, 0, index);
  std::vector<double> values(static_cast<std::size_t>(count));
  for (double& value : values) value = mean + stream.normal();
  return values;
}

/// One way to use the norm: its inputs besides x.
struct Case {
  std::string name;
  NormActivation activation = NormActivation::none;
  bool is_affine = true;
  bool has_residual = false;
  bool is_inference = false;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {.name = "bare", .is_affine = false},
      {.name = "affine"},
      {.name = "relu", .activation = NormActivation::relu},
      {.name = "prelu", .activation = NormActivation::prelu},
      {.name = "residual", .has_residual = true},
      {.name = "residual and relu", .activation = NormActivation::relu, .has_residual = true},
      {.name = "inference", .activation = NormActivation::prelu, .is_inference = true},
  };
  return all;
}

constexpr std::int64_t channels = 11;
const Shape norm_shape{3, 5, 2, channels};

/// Inputs in the order x, gamma, beta, slope, residual; those that a case does not have stay empty.
std::vector<std::vector<double>> values_of(const Case& c) {
  std::vector<std::vector<double>> values(5);
  values[0] = draw(norm_shape.numel(), 1, 3);
  if (c.is_affine) {
    values[1] = draw(channels, 2, 1);
    values[2] = draw(channels, 3);
  }
  if (c.activation == NormActivation::prelu) values[3] = draw(channels, 4, 0.25);
  if (c.has_residual) values[4] = draw(norm_shape.numel(), 5);
  return values;
}

struct Result {
  std::vector<double> y;
  std::vector<std::vector<double>> gradients;
  std::vector<double> statistics;
};

Result run(Device& device, const Case& c, DType dtype, const std::vector<std::vector<double>>& values) {
  const DType type = dtype == DType::f64 ? DType::f64 : DType::f32;
  std::vector<std::shared_ptr<Accumulator>> accumulators(5);
  std::vector<Variable> inputs(5);
  for (std::size_t i = 0; i < 5; ++i) {
    accumulators[i] = std::make_shared<Accumulator>(Category::gradients);
    const bool is_image = i == 0 || i == 4;
    if (!values[i].empty())
      inputs[i] = Variable::input(
          test::tensor(device, is_image ? norm_shape : Shape{channels}, values[i], is_image ? dtype : type),
          accumulators[i]);
  }
  const NormEpilogue epilogue{.activation = c.activation, .slope = inputs[3], .residual = inputs[4]};
  Tensor statistics;
  const Variable y =
      c.is_inference
          ? batch_norm_inference(inputs[0], test::tensor(device, {channels}, draw(channels, 7, 3), type),
                                 Tensor::full(device, {channels}, type, 2), inputs[1], inputs[2], 1e-3, epilogue)
          : batch_norm(inputs[0], inputs[1], inputs[2], 1e-3, epilogue, statistics);
  backward({{y, test::tensor(device, norm_shape, draw(norm_shape.numel(), 6), dtype)}});
  Result result{y.value().to_doubles(), {}, statistics.defined() ? statistics.to_doubles() : std::vector<double>()};
  for (const auto& accumulator : accumulators)
    result.gradients.push_back(accumulator->gradient().defined() ? accumulator->gradient().to_doubles()
                                                                 : std::vector<double>());
  return result;
}

TEST_CASE("batch_norm: normalises by mean and biased variance, f64") {
  Device device = test::make_device();
  const auto values = values_of(cases()[0]);
  const Result got = run(device, cases()[0], DType::f64, values);
  const std::int64_t count = norm_shape.numel() / channels;
  CHECK(got.statistics[0] == static_cast<double>(count));
  for (std::int64_t c = 0; c < channels; ++c) {
    double mean = 0;
    double squares = 0;
    for (std::int64_t i = 0; i < count; ++i) mean += values[0][static_cast<std::size_t>(i * channels + c)] / count;
    for (std::int64_t i = 0; i < count; ++i)
      squares += std::pow(values[0][static_cast<std::size_t>(i * channels + c)] - mean, 2);
    CHECK(got.statistics[static_cast<std::size_t>(1 + c)] == close_to(mean).epsilon(1e-13));
    CHECK(got.statistics[static_cast<std::size_t>(1 + channels + c)] == close_to(squares).epsilon(1e-12));
    CHECK(got.y[static_cast<std::size_t>(c)] ==
          close_to((values[0][static_cast<std::size_t>(c)] - mean) / std::sqrt(squares / count + 1e-3)).epsilon(1e-12));
  }
}

TEST_CASE("batch_norm: gradients equal finite differences, f64") {
  Device device = test::make_device();
  const std::vector<double> dy = draw(norm_shape.numel(), 6);
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    const auto values = values_of(c);
    const Result got = run(device, c, DType::f64, values);
    const auto loss = [&](const std::vector<std::vector<double>>& at) {
      const Result result = run(device, c, DType::f64, at);
      double sum = 0;
      for (std::size_t i = 0; i < dy.size(); ++i) sum += result.y[i] * dy[i];
      return sum;
    };
    for (std::size_t input = 0; input < 5; ++input)
      for (std::size_t i = 0; i < values[input].size(); i += 3) {
        constexpr double h = 1e-5;
        auto moved = values;
        moved[input][i] += h;
        const double above = loss(moved);
        moved[input][i] -= 2 * h;
        CHECK(got.gradients[input][i] == doctest::Approx((above - loss(moved)) / (2 * h)).epsilon(1e-7).scale(1));
      }
  }
}

TEST_CASE("batch_norm: narrower types agree with f64") {
  Device device = test::make_device();
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    auto values = values_of(c);
    // Exact in bf16, so that only the arithmetic differs.
    for (auto& input : values)
      for (double& value : input) value = std::round(value * 16) / 16;
    const Result exact = run(device, c, DType::f64, values);
    for (const auto& [dtype, tolerance] : {std::pair{DType::f32, 1e-5}, {DType::bf16, 0.1}, {DType::f16, 0.02}}) {
      CAPTURE(name_of(dtype));
      const Result got = run(device, c, dtype, values);
      for (std::size_t i = 0; i < exact.y.size(); ++i) CHECK(std::abs(got.y[i] - exact.y[i]) < tolerance);
      for (std::size_t input = 0; input < 5; ++input)
        for (std::size_t i = 0; i < exact.gradients[input].size(); ++i)
          CHECK(std::abs(got.gradients[input][i] - exact.gradients[input][i]) < 10 * tolerance);
    }
  }
}

TEST_CASE("batch_norm: a large mean does not blur a small deviation, f32") {
  Device device = test::make_device();
  std::vector<double> values = draw(20000 * 3, 8);
  for (double& value : values) value = 4096 + std::round(value * 1024) / 1024;
  values[0] = 0;  // an outlier in front, which must not become the centre
  const Tensor x = test::tensor(device, {20000, 3}, values, DType::f32);
  Tensor statistics;
  batch_norm(x, {}, {}, 1e-5, {}, statistics);
  const std::vector<double> got = statistics.to_doubles();
  double mean = 0;
  double squares = 0;
  for (std::size_t i = 1; i < values.size(); i += 3) mean += values[i] / 20000;
  for (std::size_t i = 1; i < values.size(); i += 3) squares += (values[i] - mean) * (values[i] - mean);
  CHECK(got[2] == close_to(mean).epsilon(1e-7));
  CHECK(got[5] == close_to(squares).epsilon(1e-5));
}

TEST_CASE("batch_norm: the same bits for any number of threads, f32") {
  const auto bits = [](int threads) {
    Device device(make_cpu_backend({.threads = threads}));
    const Shape large{70, 9, 9, 20};
    const auto gradient = std::make_shared<Accumulator>(Category::gradients);
    const auto dgamma = std::make_shared<Accumulator>(Category::gradients);
    const Variable x = Variable::input(test::tensor(device, large, draw(large.numel(), 1), DType::f32), gradient);
    const Variable gamma = Variable::parameter(Tensor::full(device, {20}, DType::f32, 1.5), dgamma);
    Tensor statistics;
    const Variable y = batch_norm(x, gamma, {}, 1e-5, {.activation = NormActivation::relu}, statistics);
    backward({{y, test::tensor(device, large, draw(large.numel(), 2), DType::f32)}});
    std::vector<double> all = y.value().to_doubles();
    for (const Tensor& tensor : {statistics, gradient->gradient(), dgamma->gradient()})
      for (const double value : tensor.to_doubles()) all.push_back(value);
    return all;
  };
  const std::vector<double> one = bits(1);
  CHECK(bits(2) == one);
  CHECK(bits(3) == one);
}

TEST_CASE("batch_norm: an empty batch is legal, one value per channel is not") {
  Device device = test::make_device();
  const auto dgamma = std::make_shared<Accumulator>(Category::gradients);
  const Variable gamma = Variable::parameter(Tensor::full(device, {4}, DType::f32, 1), dgamma);
  Tensor statistics;
  const Variable y = batch_norm(Tensor::zeros(device, {0, 2, 2, 4}, DType::f32), gamma, {}, 1e-5, {}, statistics);
  CHECK(statistics.to_doubles() == std::vector<double>(9, 0.0));
  backward({{y, Tensor::empty_like(y.value())}});
  CHECK(dgamma->gradient().to_doubles() == std::vector<double>(4, 0.0));
  CHECK_THROWS_WITH_AS(batch_norm(Tensor::zeros(device, {1, 4}, DType::f32), {}, {}, 1e-5, {}, statistics),
                       "batch_norm: f32[1,4] has one value per channel; statistics need two", InputError);
}

TEST_CASE("batch_norm: a channel with a NaN gives NaN, with ReLU as well") {
  Device device = test::make_device();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  Tensor statistics;
  const Tensor x = Tensor::from_host<double>(device, {2, 2}, {nan, 1, 2, 3});
  for (const NormActivation activation : {NormActivation::none, NormActivation::relu}) {
    const std::vector<double> y =
        batch_norm(x, {}, {}, 1e-5, {.activation = activation}, statistics).value().to_doubles();
    CHECK(std::isnan(y[0]));
    CHECK(std::isnan(y[2]));
    CHECK(y[3] > 0);
  }
}

TEST_CASE("batch_norm: errors print the shapes") {
  Device device = test::make_device();
  Tensor statistics;
  const auto zeros = [&](const Shape& of, DType dtype = DType::f32) { return Tensor::zeros(device, of, dtype); };
  CHECK_THROWS_WITH_AS(batch_norm(zeros({3, 4}), zeros({3}), {}, 1e-5, {}, statistics),
                       "batch_norm: gamma for f32[3,4] must be f32[4], got f32[3]", InputError);
  CHECK_THROWS_WITH_AS(batch_norm(zeros({3, 4}), {}, {}, 1e-5,
                                  {.activation = NormActivation::relu, .residual = zeros({2, 4})}, statistics),
                       "batch_norm: expected a residual f32[3,4], got f32[2,4]", InputError);
  CHECK_THROWS_WITH_AS(batch_norm(zeros({3, 4}), {}, {}, 1e-5, {.activation = NormActivation::prelu}, statistics),
                       "batch_norm: only the activation prelu takes a slope", InputError);
}

}  // namespace
}  // namespace heddle::test::normalization_test

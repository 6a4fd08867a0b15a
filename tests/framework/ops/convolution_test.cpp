#include "framework/ops/convolution.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "framework/error.h"
#include "framework/ops/linear_algebra.h"
#include "framework/ops/pooling.h"
#include "framework/scalars/random.h"
#include "framework/tensors/device.h"
#include "tests/framework/ops/exact_values.h"
#include "tests/support/devices.h"

namespace heddle::test::convolution_test {
namespace {

using namespace test::exact_values;

struct Case {
  std::string name;
  Shape x;
  Shape weight;
  ConvolutionOptions options;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {"one pixel", {1, 1, 1, 1}, {1, 1, 1, 1}, {}},
      {"3x3", {2, 6, 5, 16}, {32, 3, 3, 16}, {.padding = {1, 1}}},
      {"odd channels", {2, 7, 6, 3}, {5, 3, 3, 3}, {.stride = {2, 2}, .padding = {1, 1}}},
      {"even kernel, uneven stride and padding", {1, 9, 8, 4}, {8, 2, 4, 4}, {.stride = {3, 2}, .padding = {0, 2}}},
      {"dilated", {2, 9, 9, 8}, {16, 3, 3, 8}, {.padding = {2, 1}, .dilation = {2, 3}}},
      {"groups", {2, 6, 6, 32}, {64, 3, 3, 8}, {.padding = {1, 1}, .groups = 4}},
      {"odd groups", {2, 5, 5, 6}, {9, 3, 3, 2}, {.stride = {2, 1}, .padding = {1, 1}, .groups = 3}},
      {"depthwise", {2, 6, 6, 16}, {16, 3, 3, 1}, {.padding = {1, 1}, .groups = 16}},
      {"pointwise with stride", {2, 5, 5, 16}, {32, 1, 1, 16}, {.stride = {2, 2}}},
      {"stem", {2, 14, 14, 3}, {64, 7, 7, 3}, {.stride = {2, 2}, .padding = {3, 3}}},
  };
  return all;
}

struct Result {
  std::vector<double> y, dx, dweight, dbias;
};

Result run(Device& device, const Case& c, DType dtype) {
  const auto dx = std::make_shared<Accumulator>(Category::gradients);
  const auto dweight = std::make_shared<Accumulator>(Category::gradients);
  const auto dbias = std::make_shared<Accumulator>(Category::gradients);
  const Shape bias_shape{c.weight[0]};
  const Variable x = Variable::input(test::tensor(device, c.x, draw(c.x.numel(), 1), dtype), dx);
  const Variable weight =
      Variable::parameter(test::tensor(device, c.weight, draw(c.weight.numel(), 2), dtype), dweight);
  const Variable bias = Variable::parameter(test::tensor(device, bias_shape, draw(c.weight[0], 3), dtype), dbias);
  const Variable y = conv2d(x, weight, bias, c.options);
  backward({{y, test::tensor(device, y.shape(), draw(y.shape().numel(), 4), dtype)}});
  return {y.value().to_doubles(), dx->gradient().to_doubles(), dweight->gradient().to_doubles(),
          dbias->gradient().to_doubles()};
}

/// The definition, written independently of any kernel.
std::vector<double> reference(const Case& c, const Shape& y_shape) {
  const std::vector<double> x = draw(c.x.numel(), 1);
  const std::vector<double> weight = draw(c.weight.numel(), 2);
  const std::vector<double> bias = draw(c.weight[0], 3);
  const ConvolutionOptions& o = c.options;
  std::vector<double> y;
  for (std::int64_t n = 0; n < y_shape[0]; ++n)
    for (std::int64_t i = 0; i < y_shape[1]; ++i)
      for (std::int64_t j = 0; j < y_shape[2]; ++j)
        for (std::int64_t out = 0; out < y_shape[3]; ++out) {
          double sum = bias[static_cast<std::size_t>(out)];
          const std::int64_t group = out / (c.weight[0] / o.groups);
          for (std::int64_t a = 0; a < c.weight[1]; ++a)
            for (std::int64_t b = 0; b < c.weight[2]; ++b)
              for (std::int64_t in = 0; in < c.weight[3]; ++in) {
                const std::int64_t h = i * o.stride.height - o.padding.height + a * o.dilation.height;
                const std::int64_t w = j * o.stride.width - o.padding.width + b * o.dilation.width;
                if (h < 0 || w < 0 || h >= c.x[1] || w >= c.x[2]) continue;
                const std::int64_t from = ((n * c.x[1] + h) * c.x[2] + w) * c.x[3] + group * c.weight[3] + in;
                const std::int64_t tap = ((out * c.weight[1] + a) * c.weight[2] + b) * c.weight[3] + in;
                sum += x[static_cast<std::size_t>(from)] * weight[static_cast<std::size_t>(tap)];
              }
          y.push_back(sum);
        }
  return y;
}

TEST_CASE("conv2d: equals its definition, and its gradients are its adjoints, in f64") {
  Device device = test::make_device();
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    const Result got = run(device, c, DType::f64);
    const Variable y =
        conv2d(Tensor::zeros(device, c.x, DType::f64), Tensor::zeros(device, c.weight, DType::f64), {}, c.options);
    CHECK(max_difference(got.y, reference(c, y.shape())) < 1e-12);
    // y is linear in x, in the weight and in the bias: <y(x), dy> = <x, dx>, and so for the others.
    const std::vector<double> dy = draw(y.shape().numel(), 4);
    const std::vector<double> bias = draw(c.weight[0], 3);
    const double bias_part = dot(bias, got.dbias);
    const double size = 1 + std::abs(dot(got.y, dy));
    CHECK(std::abs(dot(got.y, dy) - bias_part - dot(draw(c.x.numel(), 1), got.dx)) < 1e-12 * size);
    CHECK(std::abs(dot(got.y, dy) - bias_part - dot(draw(c.weight.numel(), 2), got.dweight)) < 1e-12 * size);
  }
}

TEST_CASE("conv2d: narrower types agree with f64") {
  Device device = test::make_device();
  for (const Case& c : cases()) {
    const Result exact = run(device, c, DType::f64);
    for (const auto& [dtype, tolerance] : {std::pair{DType::f32, 1e-5}, {DType::bf16, 2e-2}, {DType::f16, 2e-3}}) {
      CAPTURE(c.name);
      CAPTURE(name_of(dtype));
      const Result got = run(device, c, dtype);
      const auto close = [&](const std::vector<double>& a, const std::vector<double>& b) {
        const double size = std::sqrt(dot(b, b) / static_cast<double>(b.size()));
        CHECK(max_difference(a, b) < tolerance * (1 + 2 * size));
      };
      close(got.y, exact.y);
      close(got.dx, exact.dx);
      close(got.dweight, exact.dweight);
    }
  }
}

TEST_CASE("conv2d: Winograd in f32 stays within 1e-5 (rms) of f64, at edges too; other convolutions are left alone") {
  const std::vector<Case> cases{
      {"whole tiles", {6, 16, 16, 32}, {48, 3, 3, 32}, {.padding = {1, 1}}},
      {"cut tiles", {10, 7, 14, 64}, {32, 3, 3, 64}, {.padding = {1, 1}}},
      {"no padding", {32, 10, 9, 32}, {32, 3, 3, 32}, {}},
      {"weight gradients in two parts", {8, 7, 7, 128}, {128, 3, 3, 128}, {.padding = {1, 1}}},
      {"many blocks", {test::fewer_if_sanitized(5, 3), 28, 28, 256}, {128, 3, 3, 256}, {.padding = {2, 0}}},
      {"with stride", {32, 20, 20, 32}, {32, 3, 3, 32}, {.stride = {2, 2}}},
      {"few channels", {32, 16, 16, 16}, {32, 3, 3, 16}, {}},
      {"few pixels", {2, 7, 7, 256}, {256, 3, 3, 256}, {.padding = {1, 1}}},
      {"few operations", {2, 12, 12, 32}, {32, 3, 3, 32}, {.padding = {1, 1}}},
  };
  constexpr std::size_t fitting = 5;
  Device plain(make_cpu_backend({.threads = 2}));
  Device device(make_cpu_backend({.threads = 2, .winograd = true}));
  for (const Case& c : cases) {
    CAPTURE(c.name);
    const Result exact = run(plain, c, DType::f64);
    const Result got = run(device, c, DType::f32);
    const Result direct = run(plain, c, DType::f32);
    const bool fits = &c < cases.data() + fitting;
    CHECK((got.y != direct.y) == fits);
    CHECK((got.dx != direct.dx) == fits);
    CHECK((got.dweight != direct.dweight) == fits);
    const auto close = [](std::vector<double> a, const std::vector<double>& b) {
      REQUIRE(a.size() == b.size());
      for (std::size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
      CHECK(std::sqrt(dot(a, a) / dot(b, b)) < 1e-5);
    };
    close(got.y, exact.y);
    close(got.dx, exact.dx);
    close(got.dweight, exact.dweight);
  }
  // Same bits for more threads is not promised; the same call twice is.
  CHECK(run(device, cases[4], DType::f32).dweight == run(device, cases[4], DType::f32).dweight);
}

TEST_CASE("conv2d: a changed weight is packed again, and packed copies are workspace") {
  Device device = test::make_device();
  const Tensor x = test::tensor(device, {2, 6, 6, 16}, draw(2 * 36 * 16, 1), DType::f32);
  Tensor weight = test::tensor(device, {32, 3, 3, 16}, draw(32 * 9 * 16, 2), DType::f32);
  const auto sum_of_squares = [&] {
    const std::vector<double> y = conv2d(x, weight, {}, {}).value().to_doubles();
    return dot(y, y);
  };
  const double before = sum_of_squares();
  const std::int64_t held = device.meter().live()[Category::workspace];
  CHECK(sum_of_squares() == before);
  weight.copy_from(test::tensor(device, {32, 3, 3, 16}, draw(32 * 9 * 16, 9), DType::f32));
  CHECK(sum_of_squares() != before);
  weight.copy_from(test::tensor(device, {32, 3, 3, 16}, draw(32 * 9 * 16, 2), DType::f32));
  CHECK(sum_of_squares() == before);
  CHECK(device.meter().live()[Category::workspace] == held);
  weight = Tensor();
  CHECK(device.meter().live()[Category::workspace] == 0);
}

TEST_CASE("conv2d: taps that meet only padding have gradients of zero, whatever the memory held before") {
  Device device = test::make_device();
  const Case c{"idle taps", {20, 1, 1, 256}, {512, 3, 3, 256}, {.stride = {2, 2}, .padding = {1, 1}}};
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    CAPTURE(name_of(dtype));
    // Later tensors lie in the memory that these leave behind.
    for (const std::int64_t size : {300'000, 1'200'000, 2'400'000, 4'800'000})
      Tensor::full(device, {size}, DType::f32, std::numeric_limits<double>::quiet_NaN());
    const Result got = run(device, c, dtype);
    std::int64_t wrong = 0;
    for (std::size_t i = 0; i < got.dweight.size(); ++i) {
      const std::size_t tap = i / 256 % 9;
      wrong += tap == 4 ? !std::isfinite(got.dweight[i]) : got.dweight[i] != 0;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("conv2d: an empty batch gives an empty result and zero gradients") {
  Device device = test::make_device();
  const Result got = run(device, {"empty", {0, 5, 5, 16}, {16, 3, 3, 16}, {}}, DType::f32);
  CHECK(got.y.empty());
  CHECK(got.dx.empty());
  CHECK(dot(got.dweight, got.dweight) == 0);
  CHECK(dot(got.dbias, got.dbias) == 0);
}

TEST_CASE("conv2d: errors print the shapes") {
  Device device = test::make_device();
  const auto zeros = [&](const Shape& shape, DType dtype = DType::f32) { return Tensor::zeros(device, shape, dtype); };
  CHECK_THROWS_WITH_AS(conv2d(zeros({2, 8, 8, 3}), zeros({16, 3, 3, 4}), {}, {}),
                       "conv2d: f32[2,8,8,3] has 3 channels, weight f32[16,3,3,4] takes 4", InputError);
  CHECK_THROWS_WITH_AS(conv2d(zeros({8, 8, 3}), zeros({16, 3, 3, 3}), {}, {}),
                       "conv2d: expected images [N,H,W,C], got f32[8,8,3]", InputError);
  CHECK_THROWS_WITH_AS(conv2d(zeros({2, 2, 2, 3}), zeros({16, 3, 3, 3}), {}, {}),
                       "conv2d: f32[2,2,2,3] is smaller than the kernel of weight f32[16,3,3,3]", InputError);
  CHECK_THROWS_WITH_AS(conv2d(zeros({2, 8, 8, 4}), zeros({9, 3, 3, 2}), {}, {.groups = 2}),
                       "conv2d: weight f32[9,3,3,2] has 9 filters, which 2 groups do not divide", InputError);
  CHECK_THROWS_WITH_AS(conv2d(zeros({2, 8, 8, 3}), zeros({9, 3, 3, 3}, DType::bf16), {}, {}),
                       "conv2d: expected a f32 weight [out,kh,kw,in/groups], got bf16[9,3,3,3]", InputError);
  CHECK_THROWS_WITH_AS(conv2d(zeros({2, 8, 8, 3}), zeros({9, 3, 3, 3}), zeros({8}), {}),
                       "conv2d: expected a bias f32[9], got f32[8]", InputError);
}

TEST_CASE("conv2d: gradients of a weight that is used again are added with the bits of a sum, in no more memory") {
  for (const std::int64_t channels : {3, 64}) {  // with 64 channels the gradient is computed in a different layout
    CAPTURE(channels);
    Device device = test::make_device();
    const auto thirds = [&](const Shape& of, std::uint64_t index) {  // values whose sums are rounded
      std::vector<double> values = draw(of.numel(), index);
      for (double& value : values) value /= 3;
      return test::tensor(device, of, values, DType::f32);
    };
    const Shape shape{16, 3, 3, channels};
    const Tensor weight = thirds(shape, 1);
    const auto backward_of = [&](std::uint64_t seed, const std::shared_ptr<Accumulator>& gradient) {
      const Variable x = thirds({2, 9, 9, channels}, seed);
      const Variable y = conv2d(x, Variable::parameter(weight, gradient), {}, {.padding = {1, 1}});
      const Tensor dy = thirds(y.shape(), seed + 1);
      device.meter().reset_peak();
      backward({{y, dy}});
      return device.meter().peak().total();
    };
    std::vector<float> expected(static_cast<std::size_t>(shape.numel()));
    const auto both = std::make_shared<Accumulator>(Category::gradients);
    std::int64_t first = 0;
    for (const std::uint64_t seed : {2, 4, 6}) {
      const auto alone = std::make_shared<Accumulator>(Category::gradients);
      (void)backward_of(seed, alone);
      const std::vector<float> one = alone->gradient().to_host<float>();
      for (std::size_t i = 0; i < one.size(); ++i) expected[i] += one[i];
      alone->clear();
      const std::int64_t peak = backward_of(seed, both);
      if (first == 0) first = peak;
      if (channels == 64 && test::tested_backend() == "cpu") CHECK(peak == first);
    }
    CHECK(both->gradient().to_host<float>() == expected);
  }
}

TEST_CASE("pooling: values, ties, padding and adjoints") {
  Device device = test::make_device();
  const Tensor x = Tensor::from_host<double>(device, {1, 3, 3, 1}, {1, 2, 2, -4, 5, 5, -7, -8, -9});
  const PoolOptions plain{.kernel = {2, 2}, .stride = {1, 1}, .padding = {0, 0}};
  CHECK(max_pool2d(x, plain).value().to_doubles() == std::vector<double>{5, 5, 5, 5});
  // The first of equals takes the gradient: both windows of a row meet 5 first in the middle column.
  const auto dx = std::make_shared<Accumulator>(Category::gradients);
  const Variable y = max_pool2d(Variable::input(x, dx), plain);
  backward({{y, Tensor::from_host<double>(device, y.shape(), {1, 2, 4, 8})}});
  CHECK(dx->gradient().to_doubles() == std::vector<double>{0, 0, 0, 0, 15, 0, 0, 0, 0});
  // Padding never wins, and counts in the divisor or not.
  const PoolOptions padded{.kernel = {2, 2}, .stride = {3, 3}, .padding = {1, 1}};
  const Tensor negative = Tensor::full(device, {1, 3, 3, 1}, DType::f64, -8);
  CHECK(max_pool2d(negative, padded).value().to_doubles() == std::vector<double>{-8, -8, -8, -8});
  CHECK(average_pool2d(negative, padded).value().to_doubles()[0] == -2);
  PoolOptions uncounted = padded;
  uncounted.count_padding = false;
  CHECK(average_pool2d(negative, uncounted).value().to_doubles()[0] == -8);
  CHECK(global_average_pool(negative).value().to_doubles() == std::vector<double>{-8});

  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16})
    for (const bool counts : {true, false}) {
      const Shape shape{3, 7, 5, 19};
      const PoolOptions options{.kernel = {3, 2}, .stride = {2, 1}, .padding = {1, 1}, .count_padding = counts};
      const auto gradient = std::make_shared<Accumulator>(Category::gradients);
      const Variable input = Variable::input(test::tensor(device, shape, draw(shape.numel(), 1), dtype), gradient);
      for (const auto pool : {average_pool2d, max_pool2d}) {
        gradient->clear();
        const Variable out = pool(input, options);
        const std::vector<double> dy = draw(out.shape().numel(), 2);
        backward({{out, test::tensor(device, out.shape(), dy, dtype)}});
        const double expected = dot(out.value().to_doubles(), dy);
        const double got = dot(input.value().to_doubles(), gradient->gradient().to_doubles());
        CHECK(std::abs(got - expected) < (dtype == DType::f64 ? 1e-11 : dtype == DType::f32 ? 1e-4 : 2.0));
      }
    }
}

TEST_CASE("pooling: a NaN is the maximum, wherever it is") {
  Device device = test::make_device();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const PoolOptions whole{.kernel = {2, 2}, .stride = {2, 2}, .padding = {0, 0}};
  for (std::size_t at = 0; at < 4; ++at) {
    std::vector<double> values{1, 2, 3, 4};
    values[at] = nan;
    const Tensor x = Tensor::from_host<double>(device, {1, 2, 2, 1}, values);
    CHECK(std::isnan(max_pool2d(x, whole).value().item()));
  }
}

TEST_CASE("pooling: errors") {
  Device device = test::make_device();
  const Tensor x = Tensor::zeros(device, {1, 3, 3, 2}, DType::f32);
  CHECK_THROWS_WITH_AS(max_pool2d(x, {.kernel = {2, 2}, .padding = {2, 0}}),
                       "max_pool2d: padding 2x0 must lie between 0 and half of the kernel 2x2", InputError);
  CHECK_THROWS_WITH_AS(average_pool2d(x, {.kernel = {4, 4}, .padding = {0, 0}}),
                       "average_pool2d: [1,3,3,2] is smaller than the kernel 4x4", InputError);
}

}  // namespace
}  // namespace heddle::test::convolution_test

// A bias that a library adds as it multiplies, or a kernel afterwards: what it gives is compared with the cpu's.
#include <algorithm>
#include <array>
#include <cmath>

#include <doctest/doctest.h>

#include "framework/ops/convolution.h"
#include "framework/ops/linear_algebra.h"
#include "tests/support/compare/agreement.h"

namespace heddle::test {

TEST_SUITE_BEGIN(beside_cpu);

namespace {

constexpr std::array all_types{DType::f64, DType::f32, DType::bf16, DType::f16};

/// Memory that was never written is NaN on the host, and a NaN would pass every comparison.
std::vector<Tensor> finite(std::vector<Tensor> results) {
  for (const Tensor& result : results) {
    const std::vector<double> values = result.to_doubles();
    CHECK(std::all_of(values.begin(), values.end(), [](double value) { return std::isfinite(value); }));
  }
  return results;
}

TEST_CASE("A product's bias is the cpu's, of odd sizes, sums over nothing and views that begin anywhere") {
  struct Sizes {
    std::int64_t m, n, k, skipped;
  };
  for (const Sizes& s : {Sizes{40, 56, 300, 0}, Sizes{33, 64, 128, 2}, Sizes{1, 33, 129, 1}, Sizes{65, 1, 7, 3},
                         Sizes{5, 7, 0, 0}, Sizes{0, 8, 4, 0}, Sizes{3, 0, 4, 0}})
    for (const DType dtype : all_types)
      for (const DType result : {dtype, compute_dtype(dtype)})
        for (const bool transposes : {false, true})
          for (const double beta : {0.0, -0.25})
            check_agreement(fmt::format("{} x {} x {} of {} into {}, beta {}", s.m, s.n, s.k, name_of(dtype),
                                        name_of(result), beta),
                            rounding_of(result), [&](Device& on) -> std::vector<Tensor> {
                              const Shape left = transposes ? Shape{s.k, s.m} : Shape{s.m, s.k};
                              const Shape right = transposes ? Shape{s.k, s.n} : Shape{s.n, s.k};
                              Tensor c = drawn(on, {s.m, s.n}, result, 3, s.skipped);
                              // Where one rank's bias begins says nothing of another's: here two elements later than
                              // the rest.
                              for (const std::int64_t later : {0, 2})
                                gemm(drawn(on, left, dtype, 1, s.skipped), transposes,
                                     drawn(on, right, dtype, 2, s.skipped), !transposes, 0.5, beta, c,
                                     drawn(on, {s.n}, result, 4, s.skipped + later));
                              return finite({c});
                            });
}

TEST_CASE("A convolution's bias is the cpu's, and so are all gradients, whatever the library has") {
  struct Case {
    Shape x, weight;
    ConvolutionOptions options;
    std::int64_t skipped = 0;
  };
  const std::vector<Case> cases{
      {{2, 7, 6, 8}, {12, 3, 3, 8}, {.padding = {1, 1}}},
      {{2, 7, 6, 3}, {5, 3, 3, 3}, {.stride = {2, 2}, .padding = {1, 1}}, 1},
      {{2, 8, 9, 4}, {6, 2, 2, 4}, {.stride = {3, 3}}},                       // without an epilogue on the host
      {{1, 9, 9, 4}, {8, 3, 3, 4}, {.padding = {2, 1}, .dilation = {2, 3}}},  // refused there when it is run
      {{2, 5, 5, 6}, {9, 3, 3, 2}, {.padding = {1, 1}, .groups = 3}},         // and before
      {{0, 5, 5, 4}, {8, 3, 3, 4}, {}},                                       // no sample
  };
  const auto convolve = [](Device& on, const Case& c, DType dtype) -> std::vector<Tensor> {
    const std::array leaves{std::make_shared<Accumulator>(Category::activations),
                            std::make_shared<Accumulator>(Category::gradients),
                            std::make_shared<Accumulator>(Category::gradients)};
    const Variable y = conv2d(Variable::input(drawn(on, c.x, dtype, 1, c.skipped), leaves[0]),
                              Variable::parameter(drawn(on, c.weight, dtype, 2), leaves[1]),
                              Variable::parameter(drawn(on, {c.weight[0]}, dtype, 3), leaves[2]), c.options);
    backward({{y, drawn(on, y.shape(), dtype, 4)}});
    return finite({y.value(), leaves[0]->gradient(), leaves[1]->gradient(), leaves[2]->gradient()});
  };
  for (std::size_t i = 0; i < cases.size(); ++i)
    for (const DType dtype : all_types)
      check_agreement(fmt::format("case {} in {}", i, name_of(dtype)), 2 * rounding_of(dtype), [&](Device& on) {
        (void)convolve(on, cases[i], dtype);  // what was refused once is not asked for again
        return convolve(on, cases[i], dtype);
      });
}

// bf16 holds 256 and 258, but not 257.
TEST_CASE("A bias that the library adds is added before the sums are rounded") {
  if (tested_backend() != "cuda") return;
  constexpr std::int64_t in = 264;
  constexpr std::int64_t out = 16;
  Device device = make_device();
  std::vector<double> ones(in, 1);
  std::fill(ones.begin() + 257, ones.end(), 0);
  std::vector<double> rows;
  for (std::int64_t row = 0; row < out; ++row) rows.insert(rows.end(), ones.begin(), ones.end());
  const Tensor x = tensor(device, {out, in}, rows, DType::bf16);
  const Tensor bias = Tensor::full(device, {out}, DType::bf16, 1);
  CHECK(linear(x, x, bias).value().to_doubles() == std::vector<double>(out * out, 258));

  for (const std::int64_t stride : {1, 3}) {
    Device own = make_device();
    const Tensor images = tensor(own, {1, 4, 4, in}, rows, DType::bf16);
    const Tensor filters = tensor(own, {out, 1, 1, in}, rows, DType::bf16);
    const Tensor biases = Tensor::full(own, {out}, DType::bf16, 1);
    const std::vector<double> y = conv2d(images, filters, biases, {.stride = {stride, stride}}).value().to_doubles();
    const std::vector<ChosenConvolution> chosen = own.backend().convolution().chosen_convolutions();
    REQUIRE(chosen.size() == 1);
    if (stride == 1) CHECK(chosen[0].adds_bias == (chosen[0].algorithm == "implicit_precomp_gemm"));
    CHECK(y == std::vector<double>(y.size(), chosen[0].adds_bias ? 258 : 256));
  }
}

}  // namespace
TEST_SUITE_END();

}  // namespace heddle::test

// How convolutions were computed, as the backends report it.
#include <algorithm>
#include <set>

#include <doctest/doctest.h>

#include "framework/ops/convolution.h"
#include "tests/support/compare/agreement.h"

namespace heddle::test {
namespace {

/// One convolution, forward and backward.
void train(Device& device, DType dtype, bool has_bias, const ConvolutionOptions& options, std::int64_t skipped = 0) {
  const auto leaf = [] { return std::make_shared<Accumulator>(Category::gradients); };
  const Variable x = Variable::input(drawn(device, {2, 9, 8, 4}, dtype, 1, skipped), leaf());
  const Variable weight = Variable::parameter(drawn(device, {6, 3, 3, 4}, dtype, 2), leaf());
  const Variable bias = has_bias ? Variable::parameter(drawn(device, {6}, dtype, 3), leaf()) : Variable();
  const Variable y = conv2d(x, weight, bias, options);
  backward({{y, drawn(device, y.shape(), dtype, 4)}});
}

TEST_CASE("A geometry is written with what differs from a plain convolution's") {
  ConvolutionGeometry g{.batch = 8,
                        .input = {56, 57},
                        .in_channels = 64,
                        .output = {28, 29},
                        .out_channels = 128,
                        .kernel = {3, 1},
                        .stride = {2, 2},
                        .padding = {1, 0},
                        .dilation = {}};
  CHECK(to_string(g) == "[8,56,57,64] -> [8,28,29,128], kernel 3x1, stride 2x2, padding 1x0");
  g.dilation = {1, 2};
  g.groups = 32;
  CHECK(to_string(g) == "[8,56,57,64] -> [8,28,29,128], kernel 3x1, stride 2x2, padding 1x0, dilation 1x2, 32 groups");
}

TEST_CASE("cuda reports the algorithm of each part of a convolution, and other backends report nothing") {
  for (const char* name : {"cpu", "plan"}) {
    Device device = make_device(name);
    train(device, DType::f32, true, {});
    CHECK(device.backend().convolution().chosen_convolutions().empty());
  }
  if (tested_backend() != "cuda") return;
  Device device = make_device();
  const ConvolutionKernels& kernels = device.backend().convolution();
  CHECK(kernels.chosen_convolutions().empty());
  train(device, DType::f32, true, {.stride = {2, 1}});
  train(device, DType::f32, true, {.stride = {2, 1}});
  train(device, DType::f64, false, {});
  const ConvolutionGeometry g{.batch = 2,
                              .input = {9, 8},
                              .in_channels = 4,
                              .output = {4, 6},
                              .out_channels = 6,
                              .kernel = {3, 3},
                              .stride = {2, 1},
                              .padding = {0, 0},
                              .dilation = {}};
  // Deterministic, without Winograd's transforms.
  const std::vector<std::set<std::string>> possible{
      {"implicit_gemm", "implicit_precomp_gemm", "gemm", "direct", "fft", "fft_tiling"},
      {"algo_1", "fft", "fft_tiling"},
      {"algo_1", "fft", "fft_tiling"}};
  const std::vector<ChosenConvolution> rows = kernels.chosen_convolutions();
  REQUIRE(rows.size() == 6);
  CHECK(std::is_sorted(rows.begin(), rows.end()));
  for (std::size_t i = 0; i < 3; ++i) {
    const auto part = static_cast<ConvolutionPart>(i);
    const auto row_of = [&](const std::string& geometry, DType dtype) {
      const auto found = std::find_if(rows.begin(), rows.end(), [&](const ChosenConvolution& row) {
        return row.geometry == geometry && row.part == name_of(part) && row.dtype == name_of(dtype);
      });
      REQUIRE(found != rows.end());
      return *found;
    };
    const ChosenConvolution chosen = row_of(to_string(g), DType::f32);
    CHECK(possible[i].contains(chosen.algorithm));
    CHECK(chosen.math == "fma");
    CHECK(chosen.workspace == kernels.convolution_needs(g, part, DType::f32).workspace);
    if (chosen.adds_bias) CHECK(chosen.algorithm == "implicit_precomp_gemm");
    const ChosenConvolution plain = row_of("[2,9,8,4] -> [2,7,6,6], kernel 3x3, stride 1x1, padding 0x0", DType::f64);
    CHECK(plain.algorithm == "plain");
    CHECK(plain.math.empty());
    CHECK(plain.workspace == 0);
    CHECK_FALSE(plain.adds_bias);
  }
}

TEST_CASE("cuda reports where its own kernel computed a convolution, for operands that cuDNN does not read") {
  if (tested_backend() != "cuda") return;
  Device device = make_device();
  train(device, DType::bf16, true, {.stride = {2, 2}}, 1);
  const std::vector<ChosenConvolution> rows = device.backend().convolution().chosen_convolutions();
  const auto plain = [&](ConvolutionPart part) {
    return std::any_of(rows.begin(), rows.end(), [&](const ChosenConvolution& row) {
      return row.part == name_of(part) && row.algorithm == "plain";
    });
  };
  CHECK(plain(ConvolutionPart::forward));
  CHECK_FALSE(plain(ConvolutionPart::backward_input));
  CHECK(plain(ConvolutionPart::backward_weight));
}

}  // namespace
}  // namespace heddle::test

// Shapes for which kernels of a GPU go other ways than for small ones: several blocks and parts of sums, tiles of
// channels, rows that cannot be read in packs. The tested backend is compared with the cpu's, whichever it is.
#include <array>
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include "framework/ops/convolution.h"
#include "framework/ops/linear_algebra.h"
#include "tests/support/compare/agreement.h"
#include "tests/support/compare/close_to.h"
#include "tests/support/compare/difference.h"
#include "tests/support/devices.h"

namespace heddle::test::cuda_convolution_test {

TEST_SUITE_BEGIN(beside_cpu);

namespace {

constexpr std::array all_types{DType::f64, DType::f32, DType::bf16, DType::f16};

/// These values in a storage in which they begin `offset` elements after an aligned address.
Tensor placed(Device& device, const Shape& shape, const std::vector<double>& values, DType dtype, std::int64_t offset) {
  const Tensor room = Tensor::full(device, {shape.numel() + offset}, dtype, 99);
  Tensor view = Tensor::view(room.storage(), offset * static_cast<std::int64_t>(size_of(dtype)), shape, dtype);
  view.copy_from(tensor(device, shape, values, dtype));
  return view;
}

double tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 1e-13;
    case DType::f32:
      return 2e-6;
    case DType::bf16:
      return 1.0 / 128;
    default:
      return 1.0 / 1024;
  }
}

struct NormCase {
  std::int64_t rows;
  std::int64_t channels;
  std::int64_t offset;
};

struct NormResults {
  std::vector<double> moments, y, sums, passed, dx;
};

NormResults run_norm(Device& device, const NormCase& c, DType dtype, NormActivation activation, bool has_residual) {
  const NormalizationKernels& kernels = device.backend().normalization();
  const DType statistics = compute_dtype(dtype);
  const Shape shape{c.rows, c.channels};
  const Shape channels{c.channels};
  std::vector<double> values = normal_values(shape.numel(), 1);
  for (double& value : values) value += 3;
  const Tensor x = placed(device, shape, values, dtype, c.offset);
  const Tensor dy = placed(device, shape, normal_values(shape.numel(), 2), dtype, c.offset);
  const Tensor residual =
      has_residual ? placed(device, shape, normal_values(shape.numel(), 3), dtype, c.offset) : Tensor();
  const auto drawn = [&](std::uint64_t seed) {
    return tensor(device, channels, normal_values(c.channels, seed), statistics);
  };
  const bool is_prelu = activation == NormActivation::prelu;
  const Tensor mean = Tensor::full(device, channels, statistics, 2.9);
  const Tensor inverse = Tensor::full(device, channels, statistics, 0.8);
  const Tensor gamma = drawn(4);
  const Tensor beta = is_prelu ? drawn(5) : Tensor();
  const Tensor slope = is_prelu ? drawn(6) : Tensor();
  Tensor moments = Tensor::empty(device, {2, c.channels}, statistics);
  kernels.moments(x, moments);
  Tensor y = placed(device, shape, std::vector<double>(values.size()), dtype, c.offset);
  const ChannelNorm norm{.x = x,
                         .mean = mean,
                         .inverse_deviation = inverse,
                         .gamma = gamma,
                         .beta = beta,
                         .activation = activation,
                         .slope = slope};
  kernels.normalize(norm, residual, y);
  Tensor sums = Tensor::empty(device, {3, c.channels}, statistics);
  Tensor passed = has_residual ? dy.clone() : Tensor();
  const bool needs_output = has_residual && activation == NormActivation::relu;
  kernels.normalize_backward_sums(norm, needs_output ? y : Tensor(), has_residual ? passed : dy, sums, passed);
  Tensor dx = dy.clone();
  ChannelNorm passing = norm;
  if (has_residual) passing.activation = NormActivation::none;
  kernels.normalize_backward_input(passing, has_residual ? passed : dx, sums, static_cast<double>(c.rows), dx);
  return {moments.to_doubles(), y.to_doubles(), sums.to_doubles(),
          has_residual ? passed.to_doubles() : std::vector<double>(), dx.to_doubles()};
}

TEST_CASE("Norms over many rows, tiles of channels, odd channels and views that begin anywhere are the cpu's") {
  Device device = make_device();
  Device cpu = make_device("cpu");
  const std::vector<NormCase> cases{{5000, 64, 0}, {1200, 520, 0}, {700, 11, 0}, {9001, 1, 0},
                                    {2100, 64, 1}, {3, 2048, 0},   {1, 8, 0},    {20000, 4, 0}};
  for (const NormCase& c : cases)
    for (const DType dtype : all_types)
      for (const NormActivation activation : {NormActivation::none, NormActivation::relu, NormActivation::prelu})
        for (const bool has_residual : {false, true}) {
          if (has_residual && activation == NormActivation::prelu) continue;
          CAPTURE(c.rows);
          CAPTURE(c.channels);
          CAPTURE(name_of(dtype));
          CAPTURE(static_cast<int>(activation));
          CAPTURE(has_residual);
          const NormResults got = run_norm(device, c, dtype, activation, has_residual);
          const NormResults expected = run_norm(cpu, c, dtype, activation, has_residual);
          const double sums = dtype == DType::f64 ? 1e-12 : 1e-5;
          CHECK(difference(got.moments, expected.moments) < sums);
          CHECK(difference(got.sums, expected.sums) < sums);
          CHECK(difference(got.y, expected.y) < tolerance_of(dtype));
          CHECK(difference(got.passed, expected.passed) < tolerance_of(dtype));
          CHECK(difference(got.dx, expected.dx) < tolerance_of(dtype));
        }
}

TEST_CASE("Moments of many rows keep a deviation that is small beside the mean") {
  Device device = make_device();
  constexpr std::int64_t rows = 40000;
  std::vector<double> values = normal_values(rows * 8, 1);
  for (double& value : values) value = 4096 + std::round(value * 1024) / 1024;
  Tensor moments = Tensor::empty(device, {2, 8}, DType::f32);
  device.backend().normalization().moments(tensor(device, {rows, 8}, values, DType::f32), moments);
  const std::vector<double> got = moments.to_doubles();
  for (std::size_t c = 0; c < 8; ++c) {
    double mean = 0;
    double squares = 0;
    for (std::size_t i = c; i < values.size(); i += 8) mean += values[i] / rows;
    for (std::size_t i = c; i < values.size(); i += 8) squares += (values[i] - mean) * (values[i] - mean);
    CHECK(got[c] == close_to(mean).epsilon(1e-7));
    CHECK(got[8 + c] == close_to(squares).epsilon(1e-6));
  }
}

struct PoolResults {
  std::vector<double> y;
  std::vector<std::int32_t> choice;
  std::vector<double> dx;
};

PoolResults run_pool(Device& device, PoolOp op, const PoolGeometry& g, DType dtype, std::int64_t offset) {
  const PoolingKernels& kernels = device.backend().pooling();
  const Shape in{g.batch, g.input.height, g.input.width, g.channels};
  const Shape out{g.batch, g.output.height, g.output.width, g.channels};
  std::vector<double> values = normal_values(in.numel(), 1);
  for (double& value : values) value = std::round(value * 2);  // ties
  if (op == PoolOp::max) {
    values[5] = -std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < values.size(); i += 97) values[i] = -std::numeric_limits<double>::infinity();
    values[values.size() / 2] = std::numeric_limits<double>::infinity();
  }
  const Tensor x = placed(device, in, values, dtype, offset);
  Tensor y = Tensor::empty(device, out, dtype);
  Tensor choice = op == PoolOp::max ? Tensor::empty(device, out, DType::i32) : Tensor();
  kernels.pool(op, g, x, y, choice);
  Tensor dx = Tensor::empty(device, in, dtype);
  kernels.pool_backward(op, g, placed(device, out, normal_values(out.numel(), 2), dtype, offset), choice, dx);
  return {y.to_doubles(), choice.defined() ? choice.to_host<std::int32_t>() : std::vector<std::int32_t>(),
          dx.to_doubles()};
}

TEST_CASE("Pools are the cpu's, with windows that overlap, lie apart, are padded or the whole image") {
  Device device = make_device();
  Device cpu = make_device("cpu");
  const auto geometry = [](std::int64_t channels, Extent input, Extent kernel, Extent stride, Extent padding) {
    const auto size = [](std::int64_t n, std::int64_t k, std::int64_t s, std::int64_t p) {
      return (n + 2 * p - k) / s + 1;
    };
    return PoolGeometry{.batch = 3,
                        .input = input,
                        .output = {size(input.height, kernel.height, stride.height, padding.height),
                                   size(input.width, kernel.width, stride.width, padding.width)},
                        .channels = channels,
                        .kernel = kernel,
                        .stride = stride,
                        .padding = padding};
  };
  const std::vector<PoolGeometry> geometries{
      geometry(64, {15, 13}, {3, 3}, {2, 2}, {1, 1}), geometry(16, {9, 8}, {2, 2}, {3, 3}, {0, 1}),
      geometry(7, {9, 8}, {4, 2}, {1, 1}, {2, 0}),    geometry(32, {7, 7}, {7, 7}, {1, 1}, {0, 0}),
      geometry(0, {7, 7}, {2, 2}, {1, 1}, {0, 0}),
  };
  for (PoolGeometry g : geometries)
    for (const DType dtype : all_types)
      for (const PoolOp op : {PoolOp::max, PoolOp::average})
        for (const bool counts : {true, false})
          for (const std::int64_t offset : {0, 1}) {
            g.count_padding = counts;
            CAPTURE(g.channels);
            CAPTURE(name_of(dtype));
            if (g.channels == 0 && op == PoolOp::max) continue;
            const PoolResults got = run_pool(device, op, g, dtype, offset);
            const PoolResults expected = run_pool(cpu, op, g, dtype, offset);
            if (op == PoolOp::max) {
              CHECK(got.y == expected.y);
              CHECK(got.choice == expected.choice);
            } else {
              CHECK(difference(got.y, expected.y) < tolerance_of(dtype));
            }
            CHECK(difference(got.dx, expected.dx) < tolerance_of(dtype));
          }
}

TEST_CASE("Products of long sums, of views that begin anywhere, and of 16-bit operands into f32 are the cpu's") {
  Device device = make_device();
  Device cpu = make_device("cpu");
  struct Case {
    std::int64_t m, n, k, offset;
  };
  const auto multiply = [](Device& on, const Case& c, DType dtype, DType result, bool transposes, double beta) {
    const Tensor a =
        placed(on, transposes ? Shape{c.k, c.m} : Shape{c.m, c.k}, normal_values(c.m * c.k, 1), dtype, c.offset);
    const Tensor b =
        placed(on, transposes ? Shape{c.k, c.n} : Shape{c.n, c.k}, normal_values(c.k * c.n, 2), dtype, 2 * c.offset);
    Tensor y = beta == 0 ? Tensor::full(on, {c.m, c.n}, result, std::numeric_limits<double>::quiet_NaN())
                         : placed(on, {c.m, c.n}, normal_values(c.m * c.n, 3), result, c.offset);
    gemm(a, transposes, b, !transposes, 0.5, beta, y);
    return y.to_doubles();
  };
  for (const Case& c : {Case{40, 56, 300, 0}, Case{1, 33, 129, 1}, Case{65, 1, 7, 3}, Case{128, 64, 64, 0}})
    for (const DType dtype : all_types)
      for (const DType result : {dtype, compute_dtype(dtype)})
        for (const bool transposes : {false, true})
          for (const double beta : {0.0, 1.0, -0.25}) {
            CAPTURE(c.k);
            CAPTURE(name_of(dtype));
            CAPTURE(name_of(result));
            CHECK(difference(multiply(device, c, dtype, result, transposes, beta),
                             multiply(cpu, c, dtype, result, transposes, beta)) < tolerance_of(result));
          }
}

TEST_CASE("A convolution over many rows, and of operands that begin anywhere, is the cpu's, and the same every time") {
  const auto convolve = [](Device& device, DType dtype, std::int64_t groups, std::int64_t offset) {
    const ConvolutionKernels& kernels = device.backend().convolution();
    const ConvolutionGeometry g{.batch = 3,
                                .input = {40, 33},
                                .in_channels = 8,
                                .output = {40, 17},
                                .out_channels = 12,
                                .kernel = {3, 3},
                                .stride = {1, 2},
                                .padding = {1, 1},
                                .dilation = {1, 1},
                                .groups = groups};
    const Shape in{g.batch, g.input.height, g.input.width, g.in_channels};
    const Shape out{g.batch, g.output.height, g.output.width, g.out_channels};
    const Shape filters{g.out_channels, 3, 3, g.in_channels / groups};
    const Tensor x = placed(device, in, normal_values(in.numel(), 1), dtype, offset);
    const Tensor dy = placed(device, out, normal_values(out.numel(), 2), dtype, offset);
    const Tensor weight = placed(device, filters, normal_values(filters.numel(), 3), dtype, offset);
    const auto room = [&](std::int64_t bytes) {
      return bytes == 0 ? Tensor() : Tensor::empty(device, {bytes}, DType::u8);
    };
    const auto packed = [&](ConvolutionPart part, const ConvolutionNeeds& needs) {
      Tensor layout = room(needs.packed_weight);
      if (layout.defined()) kernels.pack_weight(g, part, weight, layout);
      return layout.defined() ? layout : weight;
    };
    std::vector<double> all;
    const auto keep = [&](const Tensor& tensor) {
      const std::vector<double> values = tensor.to_doubles();
      all.insert(all.end(), values.begin(), values.end());
    };
    ConvolutionNeeds needs = kernels.convolution_needs(g, ConvolutionPart::forward, dtype);
    Tensor workspace = room(needs.workspace);
    Tensor y = placed(device, out, std::vector<double>(static_cast<std::size_t>(out.numel())), dtype, offset);
    kernels.convolution_forward(g, x, packed(ConvolutionPart::forward, needs), {}, y, workspace);
    keep(y);
    needs = kernels.convolution_needs(g, ConvolutionPart::backward_input, dtype);
    workspace = room(needs.workspace);
    Tensor dx = placed(device, in, std::vector<double>(static_cast<std::size_t>(in.numel())), dtype, offset);
    kernels.convolution_backward_input(g, dy, packed(ConvolutionPart::backward_input, needs), dx, workspace);
    keep(dx);
    needs = kernels.convolution_needs(g, ConvolutionPart::backward_weight, dtype);
    workspace = room(needs.workspace);
    Tensor layout = room(needs.packed_weight);
    Tensor dweight = Tensor::empty(device, filters, dtype);
    kernels.convolution_backward_weight(g, x, dy, false, dweight, layout, workspace);
    keep(dweight);
    return all;
  };
  Device device = make_device();
  Device cpu = make_device("cpu");
  for (const DType dtype : all_types)
    for (const std::int64_t groups : {1, 2, 4})
      for (const std::int64_t offset : {0, 1}) {
        CAPTURE(name_of(dtype));
        CAPTURE(groups);
        CAPTURE(offset);
        const std::vector<double> got = convolve(device, dtype, groups, offset);
        CHECK(difference(got, convolve(cpu, dtype, groups, offset)) < tolerance_of(dtype));
        CHECK(convolve(device, dtype, groups, offset) == got);
      }
}

}  // namespace
TEST_CASE("f32 is multiplied in TF32 where that is asked for, and nowhere else") {
  if (tested_backend() != "cuda") return;
  Device exact = make_device();
  Device rounded(make_backend("cuda", {.tf32 = true}), 0, {});
  const auto apart = [&](auto run, DType dtype) {
    return difference(run(rounded, dtype).to_doubles(), run(exact, dtype).to_doubles());
  };
  const auto product = [](Device& device, DType dtype) {
    Tensor c = Tensor::empty(device, {32, 16}, dtype);
    gemm(drawn(device, {32, 64}, dtype, 1), false, drawn(device, {64, 16}, dtype, 2), false, 1, 0, c);
    return c;
  };
  const auto convolution = [](Device& device, DType dtype) {
    return conv2d(drawn(device, {2, 9, 9, 8}, dtype, 1), drawn(device, {16, 3, 3, 8}, dtype, 2), {}, {}).value();
  };
  for (const double error : {apart(product, DType::f32), apart(convolution, DType::f32)}) {
    CHECK(error > 1e-5);
    CHECK(error < 1e-3);
  }
  for (const DType dtype : {DType::f64, DType::bf16, DType::f16}) {
    CHECK(apart(product, dtype) == 0);
    CHECK(apart(convolution, dtype) == 0);
  }
}

TEST_SUITE_END();

}  // namespace heddle::test::cuda_convolution_test

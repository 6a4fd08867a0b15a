#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "framework/error.h"
#include "framework/ops/linear_algebra.h"
#include "tests/framework/ops/exact_values.h"
#include "tests/support/devices.h"

namespace heddle::test {
namespace {

using namespace test::exact_values;

TEST_CASE("matmul: every transposition in every type, with its gradients") {
  Device device = test::make_device();
  const std::int64_t m = 5;
  const std::int64_t n = 7;
  const std::int64_t k = 9;
  const std::vector<double> dy = draw(m * n, 3);
  for (const bool ta : {false, true})
    for (const bool tb : {false, true}) {
      const Shape a_shape = ta ? Shape{k, m} : Shape{m, k};
      const Shape b_shape = tb ? Shape{n, k} : Shape{k, n};
      const std::vector<double> a = draw(m * k, 1);
      const std::vector<double> b = draw(k * n, 2);
      const auto at = [&](const std::vector<double>& v, bool t, std::int64_t rows, std::int64_t columns, std::int64_t i,
                          std::int64_t j) { return v[static_cast<std::size_t>(t ? j * rows + i : i * columns + j)]; };
      std::vector<double> y;
      for (std::int64_t i = 0; i < m; ++i)
        for (std::int64_t j = 0; j < n; ++j) {
          double sum = 0;
          for (std::int64_t l = 0; l < k; ++l) sum += at(a, ta, m, k, i, l) * at(b, tb, k, n, l, j);
          y.push_back(sum);
        }
      for (const auto& [dtype, tolerance] :
           {std::pair{DType::f64, 1e-13}, {DType::f32, 2e-6}, {DType::bf16, 2e-2}, {DType::f16, 2e-3}}) {
        CAPTURE(name_of(dtype));
        const auto da = std::make_shared<Accumulator>(Category::gradients);
        const auto db = std::make_shared<Accumulator>(Category::gradients);
        const Variable product = matmul(Variable::parameter(test::tensor(device, a_shape, a, dtype), da),
                                        Variable::parameter(test::tensor(device, b_shape, b, dtype), db), ta, tb);
        backward({{product, test::tensor(device, {m, n}, dy, dtype)}});
        CHECK(max_difference(product.value().to_doubles(), y) < 4 * tolerance);
        CHECK(std::abs(dot(a, da->gradient().to_doubles()) - dot(y, dy)) < 100 * tolerance);
        CHECK(std::abs(dot(b, db->gradient().to_doubles()) - dot(y, dy)) < 100 * tolerance);
        // c = alpha * a * b + beta * c
        Tensor c = test::tensor(device, {m, n}, dy, dtype);
        gemm(test::tensor(device, a_shape, a, dtype), ta, test::tensor(device, b_shape, b, dtype), tb, 0.5, -2, c);
        std::vector<double> expected(y.size());
        for (std::size_t i = 0; i < y.size(); ++i) expected[i] = 0.5 * y[i] - 2 * dy[i];
        CHECK(max_difference(c.to_doubles(), expected) < 4 * tolerance);
      }
    }
}

TEST_CASE("matmul: empty operands") {
  Device device = test::make_device();
  const auto ones = [&](const Shape& shape) { return Tensor::full(device, shape, DType::f32, 1); };
  CHECK(matmul(ones({0, 3}), ones({3, 2})).shape() == Shape{0, 2});
  CHECK(matmul(ones({2, 0}), ones({0, 3})).value().to_host<float>() == std::vector<float>(6, 0.0F));
  Tensor c = ones({2, 2});
  gemm(ones({2, 0}), false, ones({0, 2}), false, 1, 3, c);
  CHECK(c.to_host<float>() == std::vector<float>(4, 3.0F));
  gemm(ones({2, 0}), false, ones({0, 2}), false, 1, 3, c, ones({2}));
  CHECK(c.to_host<float>() == std::vector<float>(4, 10.0F));
}

/// a [m, k] * op(b) + beta * c [m, n] of drawn values; b is packed for `packed_rows` rows of a, unless that is 0.
Tensor product_of_draws(Device& device, DType dtype, bool transpose, std::int64_t m, std::int64_t n, std::int64_t k,
                        double beta, std::int64_t packed_rows) {
  const Tensor a = test::tensor(device, {m, k}, draw(m * k, 1), dtype);
  const Tensor b = test::tensor(device, transpose ? Shape{n, k} : Shape{k, n}, draw(k * n, 2), dtype);
  Tensor c = test::tensor(device, {m, n}, draw(m * n, 3), dtype);
  if (packed_rows > 0)
    PackedOperand(b, transpose, packed_rows, 2).multiply(a, beta, c);
  else
    gemm(a, false, b, transpose, 1, beta, c);
  return c;
}

TEST_CASE("A packed operand gives gemm's products, also with different numbers of rows, and is planned to the byte") {
  constexpr std::int64_t rows = 96;
  const auto multiply = [](Device& device, DType dtype, bool transpose, std::int64_t m, double beta, bool packs) {
    return product_of_draws(device, dtype, transpose, m, 70, 40, beta, packs ? rows : 0);
  };
  for (const auto& [dtype, tolerance] :
       {std::pair{DType::f64, 1e-13}, {DType::f32, 1e-5}, {DType::bf16, 0.1}, {DType::f16, 0.02}})
    for (const bool transpose : {false, true})
      for (const std::int64_t m : {rows, rows - 1, std::int64_t{1}})
        for (const double beta : {0.0, 1.0}) {
          CAPTURE(name_of(dtype));
          CAPTURE(transpose);
          CAPTURE(m);
          CAPTURE(beta);
          Device device = test::make_device();
          const Tensor packed = multiply(device, dtype, transpose, m, beta, true);
          const auto peak = device.meter().peak();
          const Tensor plain = multiply(device, dtype, transpose, m, beta, false);
          CHECK(max_difference(packed.to_doubles(), plain.to_doubles()) < tolerance);
          Device planned = test::make_device("plan");
          (void)multiply(planned, dtype, transpose, m, beta, true);
          CHECK(planned.meter().peak().bytes == peak.bytes);
        }
}

TEST_CASE("gemm: products that a CPU with AMX computes on tiles, also with a packed operand, planned to the byte") {
  const auto multiply = [](Device& device, DType dtype, bool transpose, std::int64_t n, double beta, bool packs) {
    constexpr std::int64_t m = 260;
    return product_of_draws(device, dtype, transpose, m, n, 300, beta, packs ? m : 0);
  };
  for (const std::int64_t n : {130, 500})
    for (const bool transpose : {false, true})
      for (const double beta : {0.0, 1.0, -2.0}) {
        CAPTURE(n);
        CAPTURE(transpose);
        CAPTURE(beta);
        Device device = test::make_device();
        const std::vector<double> exact = multiply(device, DType::f64, transpose, n, beta, false).to_doubles();
        for (const bool packs : {false, true}) {
          device.meter().reset_peak();
          const Tensor product = multiply(device, DType::f32, transpose, n, beta, packs);
          CHECK(max_difference(product.to_doubles(), exact) < 1e-4);
          Device planned = test::make_device("plan");
          (void)multiply(planned, DType::f32, transpose, n, beta, packs);
          CHECK(planned.meter().peak().bytes == device.meter().peak().bytes);
        }
      }
}

TEST_CASE("gemm: weight gradients in blocks of copied rows, planned to the byte") {
  const auto multiply = [](Device& device, DType dtype, const Shape& a_shape, std::int64_t n) {
    const std::int64_t k = a_shape[0];
    const std::int64_t m = a_shape[1];
    const Tensor a = test::tensor(device, a_shape, draw(m * k, 1), dtype);
    const Tensor b = test::tensor(device, {k, n}, draw(k * n, 2), dtype);
    Tensor c = test::tensor(device, {m, n}, draw(m * n, 3), dtype);
    gemm(a, true, b, false, 0.5, -2, c);
    return c;
  };
  // One block, a last block of one row, two equal blocks; lengths of rows that are slow on the left and on the right.
  for (const std::int64_t k : {64, 1025, 2048})
    for (const auto& [m, n] : {std::pair<std::int64_t, std::int64_t>{512, 64}, {70, 1024}}) {
      CAPTURE(k);
      CAPTURE(m);
      Device device = test::make_device();
      const std::vector<double> exact = multiply(device, DType::f64, {k, m}, n).to_doubles();
      device.meter().reset_peak();
      const Tensor product = multiply(device, DType::f32, {k, m}, n);
      CHECK(max_difference(product.to_doubles(), exact) < 1e-4);
      Device planned = test::make_device("plan");
      (void)multiply(planned, DType::f32, {k, m}, n);
      CHECK(planned.meter().peak().bytes == device.meter().peak().bytes);
    }
}

TEST_CASE("linear and matmul: errors print the shapes") {
  Device device = test::make_device();
  const auto zeros = [&](const Shape& shape) { return Tensor::zeros(device, shape, DType::f32); };
  CHECK_THROWS_WITH_AS(matmul(zeros({2, 3}), zeros({3, 4}), false, true),
                       "matmul: f32[2,3] and f32[3,4] transposed do not fit", InputError);
  CHECK_THROWS_WITH_AS(linear(zeros({2, 3}), zeros({4, 5}), {}),
                       "linear: f32[2,3] does not fit a weight f32[4,5] of [out, in]", InputError);
  CHECK_THROWS_WITH_AS(linear(zeros({2, 3}), zeros({4, 3}), zeros({3})), "linear: expected a bias f32[4], got f32[3]",
                       InputError);
  Tensor c = zeros({2, 4});
  CHECK_THROWS_WITH_AS(gemm(zeros({2, 3}), false, zeros({3, 4}), false, 1, 0, c, zeros({2})),
                       "matmul: expected a bias f32[4], got f32[2]", InputError);
}

}  // namespace
}  // namespace heddle::test

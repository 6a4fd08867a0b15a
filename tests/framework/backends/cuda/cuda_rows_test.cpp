// Kernels over rows, as the cpu computes them: short rows and long ones, of every type, however their memory is
// aligned.
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include "tests/support/compare/agreement.h"

namespace heddle::test::cuda_rows_test {

TEST_SUITE_BEGIN(beside_cpu);

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

const std::vector<Shape> shapes{{0, 5},    {3, 0},    {1, 1},    {9, 37},   {2, 5, 64},
                                {5, 1024}, {3, 1032}, {2, 9001}, {2, 16400}};

/// body(name, shape, dtype, skipped) for all of them.
template <class F>
void for_rows(F body) {
  for (const Shape& shape : shapes)
    for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16})
      for (const std::int64_t skipped : {0, 3})
        body(fmt::format("{} {} behind {}", name_of(dtype), to_string(shape), skipped), shape, dtype, skipped);
}

std::int64_t rows_of(const Shape& shape) {
  return shape.product(0, shape.rank() - 1);
}

std::vector<std::int64_t> places(std::int64_t count, std::int64_t rows) {
  std::vector<std::int64_t> index;
  for (std::int64_t i = 0; i < count; ++i) index.push_back((i * i + i / 7) % rows);
  return index;
}

TEST_CASE("Softmax, log-sum-exp and cross entropy are the cpu's, forward and backward") {
  for_rows([](const std::string& name, const Shape& shape, DType dtype, std::int64_t skipped) {
    check_agreement(name, rounding_of(dtype), [&](Device& device) {
      const RowKernels& kernels = device.backend().rows();
      const std::int64_t rows = rows_of(shape);
      const DType type = compute_dtype(dtype);
      const Tensor x = drawn(device, shape, dtype, 1, skipped);
      const Tensor dy = drawn(device, shape, dtype, 2, skipped);
      const Tensor gradient = drawn(device, {rows}, type, 3);
      Tensor y = room(device, shape, dtype, skipped);
      Tensor dx = room(device, shape, dtype);
      kernels.softmax(x, y);
      kernels.softmax_backward(y, dy, dx);
      Tensor log_sums = room(device, {rows}, type);
      Tensor by_sums = room(device, shape, dtype, skipped);
      kernels.log_sum_exp(x, log_sums);
      kernels.log_sum_exp_backward(x, log_sums, gradient, by_sums);
      std::vector<Tensor> results{y, dx, log_sums, by_sums};
      if (shape.back() == 0) return std::vector<Tensor>{y, dx};  // log-sums are infinite
      const Tensor labels = integers(device, places(rows, shape.back()));
      Tensor loss = room(device, {rows}, type);
      Tensor by_loss = room(device, shape, dtype, skipped);
      kernels.cross_entropy(x, log_sums, labels, loss);
      kernels.cross_entropy_backward(x, log_sums, labels, gradient, by_loss);
      results.insert(results.end(), {loss, by_loss});
      return results;
    });
  });
}

TEST_CASE("More rows than are worked on at once all have their results") {
  check_agreement("33000 rows", rounding_of(DType::f32), [](Device& device) {
    const Tensor x = drawn(device, {33000, 2}, DType::f32, 1);
    Tensor y = Tensor::empty_like(x);
    Tensor unit = Tensor::empty_like(x);
    Tensor inverse = Tensor::empty(device, {33000}, DType::f32);
    device.backend().rows().softmax(x, y);
    device.backend().normalization().l2_normalize(x, 1e-3, unit, inverse);
    return std::vector<Tensor>{y, unit, inverse};
  });
}

TEST_CASE("Rows of infinities and NaN have the cpu's softmax and log-sum, wherever these stand") {
  for (const std::int64_t columns : {40, 5000, 20000})
    for (const std::int64_t place : {std::int64_t{0}, std::int64_t{33}, columns - 1}) {
      const auto row = [&](double background, double special) {
        std::vector<double> values(static_cast<std::size_t>(columns), background);
        values[static_cast<std::size_t>(place)] = special;
        return values;
      };
      std::vector<double> values;
      for (const auto& [background, special] : std::vector<std::pair<double, double>>{{1, infinity},
                                                                                      {1, -infinity},
                                                                                      {1, nan},
                                                                                      {-infinity, 2},
                                                                                      {-infinity, -infinity},
                                                                                      {infinity, 0},
                                                                                      {-500, 500}})
        for (const double value : row(background, special)) values.push_back(value);
      const auto run = [&](Device device) {
        const Tensor x = tensor(device, {7, columns}, values, DType::f32);
        Tensor y = Tensor::empty_like(x);
        Tensor log_sums = Tensor::empty(device, {7}, DType::f32);
        device.backend().rows().softmax(x, y);
        device.backend().rows().log_sum_exp(x, log_sums);
        std::vector<double> all = y.to_doubles();
        for (const double sum : log_sums.to_doubles()) all.push_back(sum);
        return all;
      };
      const std::vector<double> results = run(make_device());
      const std::vector<double> expected = run(make_device("cpu"));
      bool is_equal = true;
      for (std::size_t i = 0; i < expected.size(); ++i)
        is_equal = is_equal && (std::isnan(expected[i])   ? std::isnan(results[i])
                                : std::isinf(expected[i]) ? results[i] == expected[i]
                                                          : std::abs(results[i] - expected[i]) <= 1e-6);
      CHECK_MESSAGE(is_equal, columns << " columns, place " << place);
    }
}

TEST_CASE("Normalised rows and their gradients are the cpu's, in place and with parameters or without") {
  for_rows([](const std::string& name, const Shape& shape, DType dtype, std::int64_t skipped) {
    if (shape.back() == 0) return;
    check_agreement(name, 4 * rounding_of(dtype), [&](Device& device) {
      const NormalizationKernels& kernels = device.backend().normalization();
      const std::int64_t rows = rows_of(shape);
      const DType type = compute_dtype(dtype);
      const Tensor x = drawn(device, shape, dtype, 1, skipped);
      const Tensor dy = drawn(device, shape, dtype, 2, skipped);
      std::vector<Tensor> results;
      const auto new_room = [&](const Shape& like, DType in) {
        results.push_back(room(device, like, in, skipped));
        return results.back();
      };
      Tensor y = new_room(shape, dtype);
      Tensor inverse = new_room({rows}, type);
      Tensor inverse_alone = new_room({rows}, type);
      Tensor none;
      kernels.l2_normalize(x, 1e-3, y, inverse);
      kernels.l2_normalize(x, 1e4, none, inverse_alone);
      Tensor in_place = new_room(shape, dtype);
      in_place.copy_from(dy);
      kernels.l2_normalize_backward(x, inverse, in_place, in_place);
      const Tensor gamma = drawn(device, {shape.back()}, type, 3);
      const Tensor beta = drawn(device, {shape.back()}, type, 4, skipped);
      for (const Tensor& factor : {gamma, none})
        for (const Tensor& shift : {beta, none}) {
          Tensor normed = new_room(shape, dtype);
          Tensor statistics = new_room({2, rows}, type);
          kernels.layer_norm(x, factor, shift, 1e-3, normed, statistics);
          Tensor dx = new_room(shape, dtype);
          Tensor dgamma = new_room({shape.back()}, type);
          Tensor dbeta = new_room({shape.back()}, type);
          kernels.layer_norm_backward(x, factor, statistics, dy, dx, dgamma, dbeta);
          Tensor dx_alone = new_room(shape, dtype);
          kernels.layer_norm_backward(x, factor, statistics, dy, dx_alone, none, none);
        }
      return results;
    });
  });
}

TEST_CASE("The largest k of rows with ties, NaN and infinities stand in the cpu's order, for any k") {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16})
    for (const std::int64_t columns : {20, 1000, 5001})
      for (const std::int64_t k : {1, 2, 8, 9, 20}) {
        const auto run = [&](Device device) {
          std::vector<double> values = normal_values(4 * columns, 7);
          for (double& value : values) value = std::round(value * 4);
          values[3] = values[static_cast<std::size_t>(columns) - 1] = nan;
          values[5] = infinity;
          for (std::int64_t i = 0; i < columns; ++i) values[static_cast<std::size_t>(3 * columns + i)] = -infinity;
          const Tensor x = tensor(device, {2, 2, columns}, values, dtype);
          Tensor largest = Tensor::empty(device, {2, 2, k}, dtype);
          Tensor index = Tensor::empty(device, {2, 2, k}, DType::i64);
          device.backend().rows().top_k(x, largest, index);
          std::vector<double> found;
          for (const double value : largest.to_doubles()) found.push_back(std::isnan(value) ? 1e9 : value);
          return std::pair(index.to_host<std::int64_t>(), found);
        };
        CHECK_MESSAGE(run(make_device()) == run(make_device("cpu")), name_of(dtype)
                                                                         << ", " << columns << " columns, k " << k);
      }
}

TEST_CASE("The columns of rows with ties and NaN have the cpu's ranks, of which the first k stand apart") {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16})
    for (const std::int64_t columns : {1, 20, 700})
      for (const std::int64_t k : {std::int64_t{0}, columns / 3, columns}) {
        const auto run = [&](Device device) {
          std::vector<double> values = normal_values(6 * columns, 7);
          for (double& value : values) value = std::round(value * 4);
          values[0] = nan;
          const Tensor x = tensor(device, {2, 3, columns}, values, dtype);
          Tensor first = Tensor::empty(device, {2, 3, k}, DType::i64);
          Tensor rest = Tensor::empty(device, {2, 3, columns - k}, DType::i64);
          device.backend().rows().rank_columns(x, first, rest);
          return std::pair(first.to_host<std::int64_t>(), rest.to_host<std::int64_t>());
        };
        CHECK_MESSAGE(run(make_device()) == run(make_device("cpu")), name_of(dtype)
                                                                         << ", " << columns << " columns, k " << k);
      }
}

TEST_CASE("Rows are gathered in every width, however they are aligned") {
  for (const std::int64_t bytes : {1, 2, 3, 4, 6, 12, 16, 64, 1040})
    for (const std::int64_t skipped : {0, 1, 2, 4}) {
      const auto run = [&](Device device) {
        std::vector<std::uint8_t> values(static_cast<std::size_t>(skipped + 50 * bytes));
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint8_t>(i * 31 + (i >> 8));
        const Tensor x = Tensor::from_host(device, {skipped + 50 * bytes}, values)
                             .rows(skipped, skipped + 50 * bytes)
                             .reshape({50, bytes});
        Tensor y = Tensor::zeros(device, {skipped + 70 * bytes}, DType::u8).rows(skipped, skipped + 70 * bytes);
        Tensor rows = y.reshape({70, bytes});
        device.backend().rows().gather(x, integers(device, places(70, 50)), rows);
        return y.to_host<std::uint8_t>();
      };
      CHECK_MESSAGE(run(make_device()) == run(make_device("cpu")), bytes << " bytes behind " << skipped);
    }
}

TEST_CASE("Rows are added in the order of their places: bit for bit the cpu's sums") {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16})
    for (const std::int64_t columns : {0, 1, 37, 300, 520})
      for (const auto& [count, rows] :
           std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 4}, {700, 1}, {1000, 301}})
        check_agreement(fmt::format("{} {} columns, {} to {}", name_of(dtype), columns, count, rows), 0,
                        [&](Device& device) {
                          Tensor y = drawn(device, {rows, columns}, dtype, 2);
                          device.backend().rows().scatter_add(drawn(device, {count, columns}, dtype, 1),
                                                              integers(device, places(count, rows)), y);
                          return std::vector<Tensor>{y};
                        });
}

TEST_CASE("The first of several indices outside the rows is named, at the latest when the device is waited for") {
  Device device = make_device();
  const RowKernels& kernels = device.backend().rows();
  std::vector<std::int64_t> bad = places(6000, 9);
  for (const std::size_t i : {400, 3000, 656, 5999}) bad[i] = i == 400 ? -2 : 12;
  const Tensor index = integers(device, bad);
  const Tensor x = Tensor::full(device, {9, 2}, DType::f32, 1);
  Tensor y = Tensor::zeros(device, {6000, 2}, DType::f32);
  const auto gather = [&](const Tensor& at) {
    kernels.gather(x, at, y);
    device.backend().synchronize();
  };
  CHECK_THROWS_WITH_AS(gather(index), "gather_rows: index -2 at position 400 is outside the 9 rows", InputError);
  gather(integers(device, places(6000, 9)));
  CHECK(y.to_doubles() == std::vector<double>(12000, 1));
  Tensor sums = Tensor::zeros(device, {9, 2}, DType::f32);
  const auto both = [&] {
    kernels.scatter_add(y, index, sums);
    kernels.gather(x, index.rows(656, 657), y);
    device.backend().synchronize();
  };
  CHECK_THROWS_WITH_AS(both(), "scatter_rows: index -2 at position 400 is outside the 9 rows", InputError);
  const Tensor log_sums = Tensor::zeros(device, {3}, DType::f32);
  Tensor loss = Tensor::zeros(device, {3}, DType::f32);
  const auto entropy = [&] {
    kernels.cross_entropy(x.rows(0, 3), log_sums, integers(device, {1, 2, -1}), loss);
    device.backend().synchronize();
  };
  CHECK_THROWS_WITH_AS(entropy(), "cross_entropy: the label 2 of sample 1 is outside [0, 2)", InputError);
}

}  // namespace
TEST_SUITE_END();

}  // namespace heddle::test::cuda_rows_test

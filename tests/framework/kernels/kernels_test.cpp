#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <doctest/doctest.h>

#include "framework/scalars/scalar.h"
#include "tests/support/compare/close_to.h"
#include "tests/support/compare/difference.h"
#include "tests/support/devices.h"

namespace heddle::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Values of one kernel's outputs at shapes large enough to be shared by threads.
std::vector<std::vector<double>> large_results(DType dtype, int threads, std::string_view backend_name) {
  Device device(make_backend(backend_name, {.threads = threads}));
  device.backend().enter_thread();
  const Backend& backend = device.backend();
  std::vector<std::vector<double>> results;
  const auto drawn = [&](const Shape& shape, std::uint64_t seed) {
    Tensor x = Tensor::empty(device, shape, dtype);
    backend.training().fill_normal(x, {.key = {seed}, .purpose = Purpose::test}, 0, 0, 1);
    return x;
  };
  const auto keep = [&](const Tensor& x) { results.push_back(x.to_doubles()); };
  const Tensor x = drawn({9973, 37}, 1);
  const Tensor dy = drawn({9973, 37}, 2);
  const DType statistics = compute_dtype(dtype);
  for (const std::array<std::int64_t, 3>& view : std::vector<std::array<std::int64_t, 3>>{
           {1, x.numel(), 1}, {9973, 37, 1}, {1, 9973, 37}, {13, 767, 37}, {37, 9973, 1}})
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::mean, ReduceOp::max}) {
      Tensor y = Tensor::empty(device, {view[0] * view[2]}, dtype);
      const Tensor part = x.reshape({-1}).rows(0, view[0] * view[1] * view[2]);
      backend.reduction().reduce(op, part, view, y);
      keep(y);
    }
  Tensor slopes = Tensor::full(device, {37}, statistics, 0.25);
  Tensor dx = Tensor::empty_like(x);
  Tensor dslope = Tensor::empty_like(slopes);
  backend.elementwise().prelu_backward(x, slopes, dy, dx, dslope);
  keep(dx);
  keep(dslope);
  Tensor y = Tensor::empty_like(x);
  Tensor moments = Tensor::empty(device, {2, 9973}, statistics);
  backend.normalization().layer_norm(x, slopes, slopes, 1e-5, y, moments);
  keep(y);
  Tensor dgamma = Tensor::empty_like(slopes);
  Tensor dbeta = Tensor::empty_like(slopes);
  backend.normalization().layer_norm_backward(x, slopes, moments, dy, dx, dgamma, dbeta);
  keep(dx);
  keep(dgamma);
  keep(dbeta);
  const Tensor wide = x.reshape({-1}).rows(0, 3 * 100003).reshape({3, 100003});
  Tensor wide_y = Tensor::empty_like(wide);
  backend.rows().softmax(wide, wide_y);
  keep(wide_y);
  Tensor log_sums = Tensor::empty(device, {3}, statistics);
  backend.rows().log_sum_exp(wide, log_sums);
  keep(log_sums);
  Tensor norm = Tensor::zeros(device, {1}, DType::f64);
  backend.training().add_squared_norm(x, norm);
  keep(norm);
  std::vector<std::int64_t> places(9973);
  for (std::size_t i = 0; i < places.size(); ++i) places[i] = static_cast<std::int64_t>(i * i % 101);
  Tensor sums = Tensor::zeros(device, {101, 37}, dtype);
  backend.rows().scatter_add(x, integers(device, places), sums);
  keep(sums);
  if (dtype == DType::bf16) return results;
  const Tensor labels = integers(device, std::vector<std::int64_t>(places.begin(), places.begin() + 37));
  const Tensor row_sums = Tensor::full(device, {37}, dtype, 9);
  backend.head().gradient_by_class({.config = {.scale = 2, .combined = {.m2 = 0.5}}}, {.labels = labels}, row_sums, {},
                                   dx, dx);
  keep(dx);
  return results;
}

TEST_CASE("Kernels give the same bits for any number of threads") {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
    std::vector<std::vector<double>> expected;
    for (const int threads : {1, 5, 3, 2}) {
      const auto results = large_results(dtype, threads, "cpu");
      if (threads == 1) expected = results;
      for (std::size_t i = 0; i < results.size(); ++i)
        CHECK_MESSAGE(results[i] == expected[i], name_of(dtype) << ", result " << i << ", threads " << threads);
    }
  }
}

TEST_CASE("Large kernels in f32 agree with f64 on the same values") {
  const auto wide = large_results(DType::f64, 2, tested_backend());
  const auto narrow = large_results(DType::f32, 2, tested_backend());
  for (std::size_t i = 0; i < wide.size(); ++i) CHECK_MESSAGE(difference(narrow[i], wide[i]) < 2e-6, "result " << i);
}

TEST_CASE("Sums of many equal numbers are exact where f32 alone would stall") {
  Device device = make_device();
  const Tensor ones = Tensor::full(device, {1 << 25}, DType::f32, 1);
  Tensor y = Tensor::empty(device, {}, DType::f32);
  device.backend().reduction().reduce(ReduceOp::sum, ones, {1, 1 << 25, 1}, y);
  CHECK(y.item() == 1 << 25);
}

TEST_CASE("Combined tensors are added or compared in order, each step rounded, into several results and in place") {
  Device device = make_device();
  device.backend().enter_thread();
  const auto check = [&]<class T>(T, int count, std::int64_t size, Reduction reduction) {
    std::vector<Tensor> parts;
    for (int p = 0; p < count; ++p)
      parts.push_back(tensor(device, {size}, normal_values(size, static_cast<std::uint64_t>(p)), dtype_of<T>));
    std::vector<T> expected = parts[0].to_host<T>();
    for (int p = 1; p < count; ++p) {
      const std::vector<T> values = parts[static_cast<std::size_t>(p)].to_host<T>();
      for (std::size_t i = 0; i < values.size(); ++i) {
        const auto a = static_cast<Compute<T>>(expected[i]);
        const auto b = static_cast<Compute<T>>(values[i]);
        expected[i] = static_cast<T>(reduction == Reduction::sum ? a + b : std::max(a, b));
      }
    }
    const std::vector<double> wide(expected.begin(), expected.end());
    const Tensor apart = Tensor::empty_like(parts[0]);
    const Tensor another = Tensor::empty_like(parts[0]);
    const Tensor last = parts.back();
    // Over parts last, since that changes them.
    std::vector<std::vector<Tensor>> choices{{apart}, {apart, another}, {another, last, apart}};
    for (std::vector<Tensor>& results : choices) {
      device.backend().reduction().combine(reduction, parts, results);
      for (const Tensor& result : results) CHECK(result.to_doubles() == wide);
    }
    parts.back() = tensor(device, {size}, normal_values(size, static_cast<std::uint64_t>(count - 1)), dtype_of<T>);
    std::vector<Tensor> in_place = parts;
    device.backend().reduction().combine(reduction, parts, in_place);
    for (const Tensor& result : in_place) CHECK(result.to_doubles() == wide);
  };
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16})
    for (const int count : {2, 3, 5})
      for (const std::int64_t size : {0, 1, 4097, 100003})
        for (const Reduction reduction : {Reduction::sum, Reduction::max})
          visit_floating(dtype, "combine", [&]<class T>(T type) { check(type, count, size, reduction); });
}

TEST_CASE("A maximum shows a NaN, a softmax row with one is NaN, and an empty row has no mass") {
  Device device = make_device();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor x = tensor(device, {2, 3}, {1, nan, 2, 3, 5, 4}, DType::f32);
  Tensor y = Tensor::empty(device, {2}, DType::f32);
  device.backend().reduction().reduce(ReduceOp::max, x, {2, 3, 1}, y);
  CHECK(std::isnan(y.to_doubles()[0]));
  CHECK(y.to_doubles()[1] == 5);
  Tensor softmax = Tensor::empty_like(x);
  device.backend().rows().softmax(x, softmax);
  CHECK(std::isnan(softmax.to_doubles()[0]));
  CHECK_FALSE(std::isnan(softmax.to_doubles()[3]));
  device.backend().rows().log_sum_exp(Tensor::zeros(device, {2, 0}, DType::f32), y);
  CHECK(y.to_doubles() == std::vector<double>{-infinity, -infinity});
  device.backend().rows().log_sum_exp(tensor(device, {2, 2}, {-infinity, -infinity, -infinity, 1}, DType::f32), y);
  CHECK(y.to_doubles() == std::vector<double>{-infinity, 1});
}

TEST_CASE("Softmax and log-sum-exp of large logits neither overflow nor lose the small ones") {
  Device device = make_device();
  const Tensor x = tensor(device, {1, 3}, {1000, 990, -1000}, DType::f32);
  Tensor y = Tensor::empty_like(x);
  device.backend().rows().softmax(x, y);
  const std::vector<double> shares = y.to_doubles();
  CHECK(shares[0] == close_to(1 / (1 + std::exp(-10))));
  CHECK(shares[1] == close_to(std::exp(-10) / (1 + std::exp(-10))));
  CHECK(shares[2] == 0);
}

TEST_CASE("Every transposition of four dimensions moves every element to its place, in every width") {
  Device device = make_device();
  const Shape shape{3, 20, 17, 5};
  std::array<int, 4> order{0, 1, 2, 3};
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::u8}) {
    const std::int64_t count = shape.numel();
    Tensor x = Tensor::empty(device, shape, dtype);
    std::vector<std::byte> raw(static_cast<std::size_t>(x.bytes()));
    for (std::size_t i = 0; i < raw.size(); ++i) raw[i] = static_cast<std::byte>(i * 131 + (i >> 8) * 31);
    x.load_bytes(raw);
    const std::size_t size = size_of(dtype);
    do {
      Tensor y = Tensor::empty(device, {shape[order[0]], shape[order[1]], shape[order[2]], shape[order[3]]}, dtype);
      device.backend().shape().transpose(x, order, y);
      std::vector<std::byte> moved(raw.size());
      y.to_host_bytes(dtype, moved);
      bool is_right = true;
      for (std::int64_t i = 0; i < count; ++i) {
        std::array<std::int64_t, 4> at{};  // x's position of y's element i
        std::int64_t rest = i;
        for (int d = 3; d >= 0; --d) {
          at[static_cast<std::size_t>(order[static_cast<std::size_t>(d)])] = rest % y.shape()[d];
          rest /= y.shape()[d];
        }
        const std::int64_t from = ((at[0] * shape[1] + at[1]) * shape[2] + at[2]) * shape[3] + at[3];
        is_right = is_right && std::equal(moved.begin() + i * static_cast<std::ptrdiff_t>(size),
                                          moved.begin() + (i + 1) * static_cast<std::ptrdiff_t>(size),
                                          raw.begin() + from * static_cast<std::ptrdiff_t>(size));
      }
      CHECK_MESSAGE(is_right, name_of(dtype) << " " << order[0] << order[1] << order[2] << order[3]);
    } while (std::next_permutation(order.begin(), order.end()));
    std::iota(order.begin(), order.end(), 0);
  }
}

TEST_CASE("Casts convert between all types") {
  Device device = make_device();
  const Tensor x = tensor(device, {4}, {0, 1.5, 2.25, 100}, DType::f32);
  for (const DType dtype : {DType::f64, DType::bf16, DType::f16, DType::i64, DType::i32, DType::u8, DType::i8}) {
    Tensor y = Tensor::empty(device, {4}, dtype);
    Tensor back = Tensor::empty_like(x);
    device.backend().elementwise().cast(x, y);
    device.backend().elementwise().cast(y, back);
    const bool is_whole = !is_floating(dtype);
    CHECK(back.to_doubles() == std::vector<double>{0, is_whole ? 1 : 1.5, is_whole ? 2 : 2.25, 100});
  }
}

TEST_CASE("top_k is in descending order, ties by lower index, NaN first") {
  Device device = make_device();
  const Tensor x = tensor(device, {2, 6}, {3, 5, 1, 5, 4, 5, 0, -1, std::nan(""), 2, -3, 2}, DType::f32);
  Tensor values = Tensor::empty(device, {2, 4}, DType::f32);
  Tensor index = Tensor::empty(device, {2, 4}, DType::i64);
  device.backend().rows().top_k(x, values, index);
  CHECK(index.to_host<std::int64_t>() == std::vector<std::int64_t>{1, 3, 5, 4, 2, 3, 5, 0});
  CHECK(values.to_doubles()[3] == 4);
  CHECK(std::isnan(values.to_doubles()[4]));
}

TEST_CASE("rank_columns gives all columns in the order of top_k, as elements of the whole tensor") {
  Device device = make_device();
  const Tensor x = tensor(device, {2, 6}, {3, 5, 1, 5, 4, 5, 0, -1, std::nan(""), 2, -3, 2}, DType::f32);
  Tensor first = Tensor::empty(device, {2, 4}, DType::i64);
  Tensor rest = Tensor::empty(device, {2, 2}, DType::i64);
  device.backend().rows().rank_columns(x, first, rest);
  CHECK(first.to_host<std::int64_t>() == std::vector<std::int64_t>{1, 3, 5, 4, 8, 9, 11, 6});
  CHECK(rest.to_host<std::int64_t>() == std::vector<std::int64_t>{0, 2, 7, 10});
}

TEST_CASE("Clamping and norms reach every element") {
  Device device = make_device();
  Tensor x = tensor(device, {5}, {-3, -1, 0, 2, 7}, DType::f32);
  Tensor norm = Tensor::full(device, {1}, DType::f64, 10);
  device.backend().training().add_squared_norm(x, norm);
  CHECK(norm.item() == 10 + 9 + 1 + 4 + 49);
  device.backend().training().clamp(x, 2);
  CHECK(x.to_doubles() == std::vector<double>{-2, -1, 0, 2, 2});
}

TEST_CASE("Moments of sample groups merge into those of the whole batch") {
  Device device = make_device();
  const std::vector<double> values = normal_values(30, 3);
  std::vector<double> groups;
  for (const auto& [begin, end] : std::vector<std::pair<int, int>>{{0, 7}, {7, 7}, {7, 19}, {19, 30}}) {
    const double count = end - begin;
    const double mean = count == 0 ? 0 : std::accumulate(values.begin() + begin, values.begin() + end, 0.0) / count;
    double squares = 0;
    for (int i = begin; i < end; ++i) squares += std::pow(values[static_cast<std::size_t>(i)] - mean, 2);
    groups.insert(groups.end(), {count, mean, squares});
  }
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / 30;
  double variance = 0;
  for (const double value : values) variance += (value - mean) * (value - mean) / 29;
  Tensor running_mean = Tensor::full(device, {1}, DType::f64, 5);
  Tensor running_variance = Tensor::full(device, {1}, DType::f64, 2);
  device.backend().normalization().merge_moments(tensor(device, {4, 3}, groups), 0.1, running_mean, running_variance);
  CHECK(running_mean.item() == close_to(0.9 * 5 + 0.1 * mean).epsilon(1e-14));
  CHECK(running_variance.item() == close_to(0.9 * 2 + 0.1 * variance).epsilon(1e-14));
  Tensor inverse = Tensor::empty_like(running_variance);
  device.backend().normalization().inverse_deviation(running_variance, 0.5, 1e-5, inverse);
  CHECK(inverse.item() == close_to(1 / std::sqrt(0.5 * (0.9 * 2 + 0.1 * variance) + 1e-5)).epsilon(1e-14));
}

TEST_CASE("exponential is within 1.1 units of the last place, and zero where the result would be subnormal") {
  const auto units = [](float x) {
    const double exact = std::exp(static_cast<double>(x));
    const auto rounded = static_cast<float>(exact);
    const double unit = static_cast<double>(std::nextafter(rounded, std::numeric_limits<float>::infinity())) - rounded;
    return std::abs(static_cast<double>(exponential(x)) - exact) / unit;
  };
  double worst = 0;
  for (float x = -87.33F; x < 88.72F; x += 0.00137F) worst = std::max(worst, units(x));
  for (float x = -1e-3F; x < 1e-3F; x += 1.7e-7F) worst = std::max(worst, units(x));
  // Where the rounding of x / ln 2 changes, the remainder is largest.
  for (int n = -125; n < 127; ++n) {
    auto x = static_cast<float>((n + 0.5) * 0.69314718055994531);
    for (int i = 0; i < 20; ++i) x = std::nextafter(x, -200.0F);
    for (int i = 0; i < 40; ++i, x = std::nextafter(x, 200.0F)) worst = std::max(worst, units(x));
  }
  CHECK(worst <= 1.1);
  CHECK(exponential(0.0F) == 1.0F);
  CHECK(exponential(-87.3365402F) >= std::numeric_limits<float>::min());
  for (const float x : {-87.3365479F, -100.0F, -104.0F, -200.0F, -1e30F}) CHECK(exponential(x) == 0.0F);
  CHECK(exponential(-std::numeric_limits<float>::infinity()) == 0.0F);
  CHECK(exponential(88.7228317F) <= std::numeric_limits<float>::max());
  for (const float x : {88.7228394F, 89.0F, 1e30F, std::numeric_limits<float>::infinity()})
    CHECK(exponential(x) == std::numeric_limits<float>::infinity());
  CHECK(std::isnan(exponential(std::numeric_limits<float>::quiet_NaN())));
}

TEST_CASE("of the centres of a class, one with a NaN counts, whichever it is") {
  Device device = make_device();
  for (std::size_t at = 0; at < 3; ++at) {
    std::vector<double> products{0.1, 0.2, 0.3};
    products[at] = std::numeric_limits<double>::quiet_NaN();
    Tensor cosines = Tensor::empty(device, {1, 1}, DType::f64);
    Tensor best = Tensor::empty(device, {1, 1}, DType::u8);
    device.backend().head().best_centres(Tensor::from_host<double>(device, {1, 3}, products), {}, cosines, best);
    CHECK(std::isnan(cosines.item()));
    Tensor product = Tensor::empty(device, {1}, DType::f64);
    Tensor radii;
    Tensor centre;
    device.backend().head().target_products({.labels = Tensor::from_host<std::int64_t>(device, {1}, {0}),
                                             .range = {0, 1},
                                             .rows = Tensor::from_host<double>(device, {3, 1}, products)},
                                            Tensor::from_host<double>(device, {1, 1}, {1.0}), product, radii, centre);
    CHECK(std::isnan(product.item()));
  }
}

}  // namespace
}  // namespace heddle::test

// Kernels of the head on the tested backend against the cpu's, on the same inputs.
#include <cmath>
#include <functional>
#include <string>

#include <doctest/doctest.h>

#include "framework/kernels/head.h"
#include "framework/ops/elementwise.h"
#include "tests/support/compare/difference.h"
#include "tests/support/devices.h"

namespace heddle::test::cuda_head_test {

TEST_SUITE_BEGIN(beside_cpu);

namespace {

using Tensors = std::vector<Tensor>;

/// What `run` gives on the tested backend is what it gives on the cpu.
void compare(DType dtype, const std::function<Tensors(Device&)>& run) {
  Device tested = make_device();
  Device reference = make_device("cpu");
  const Tensors answers = run(tested);
  const Tensors expected = run(reference);
  REQUIRE(answers.size() == expected.size());
  for (std::size_t i = 0; i < answers.size(); ++i) {
    CAPTURE(i);
    if (answers[i].dtype() == DType::i64)
      CHECK(answers[i].to_host<std::int64_t>() == expected[i].to_host<std::int64_t>());
    else if (answers[i].dtype() == DType::u8)
      CHECK(answers[i].to_host<std::uint8_t>() == expected[i].to_host<std::uint8_t>());
    else
      CHECK(difference(answers[i].to_doubles(), expected[i].to_doubles()) < (dtype == DType::f64 ? 1e-13 : 2e-6));
  }
}

struct Shapes {
  std::int64_t rows, columns;
};
/// Rows in one part and in several, packs of elements with and without rests, none at all.
const std::vector<Shapes> shapes{{3, 0}, {1, 1}, {7, 5}, {5, 256}, {2, 4099}, {40, 4500}, {300, 33}, {1100, 12}};

/// Within (-1, 1).
Values cosines(std::int64_t count, std::uint64_t seed) {
  Values values = normal_values(count, seed);
  for (double& value : values) value = std::sin(value);
  return values;
}
/// Within 0.6 .. 1, so that products of 0.9 stay where acos is well conditioned.
Values scales(std::int64_t count, std::uint64_t seed) {
  Values values = cosines(count, seed);
  for (double& value : values) value = 0.6 + 0.4 * std::abs(value);
  return values;
}
Values positive(std::int64_t count, std::uint64_t seed) {
  Values values = normal_values(count, seed);
  for (double& value : values) value = 0.5 + std::abs(value);
  return values;
}

constexpr std::int64_t first_class = 10;

/// Labels of columns from first_class on, and some labels before and after them.
std::vector<std::int64_t> labels_of(Shapes s) {
  std::vector<std::int64_t> labels;
  for (std::int64_t row = 0; row < s.rows; ++row) labels.push_back(first_class - 2 + row * 7919 % (s.columns + 4));
  return labels;
}

struct Case {
  std::string name;
  MarginConfig config;
};
const std::vector<Case> margins{
    {"softmax", {.scale = 16}},
    {"arcface", {.scale = 32, .combined = {.m2 = 0.5}}},
    {"sphereface", {.scale = 8, .combined = {.m1 = 4, .beyond_pi = BeyondPi::psi}}},
    {"easy",
     {.scale = 8,
      .combined = {.m2 = 0.5, .m3 = 0.1, .gradient = MarginGradient::straight_through, .beyond_pi = BeyondPi::easy}}},
    {"filter", {.scale = 16, .combined = {.m2 = 0.5, .filter = 0.4}}},
    {"l_softmax", {.type = MarginType::l_softmax, .scale = 4}},
    {"adaface", {.type = MarginType::adaface, .scale = 16}},
    {"curricularface", {.type = MarginType::curricularface, .scale = 8}},
};

/// What the kernels take of a margin and columns on a device.
struct Inputs {
  StepMargin margin;
  HeadColumns columns;
  Inputs(Device& device, const MarginConfig& config, Shapes s, DType dtype, bool has_scale) {
    margin.config = config;
    if (config.type == MarginType::curricularface) margin.running = tensor(device, {1}, {0.3});
    if (config.type != MarginType::combined)
      margin.parameter = tensor(
          device, {s.rows},
          config.type == MarginType::l_softmax ? Values(static_cast<std::size_t>(s.rows), 2) : cosines(s.rows, 3),
          dtype);
    columns = {.labels = integers(device, labels_of(s)), .begin = first_class};
    if (!has_scale) return;
    columns.scale = tensor(device, {s.columns}, scales(s.columns, 4), dtype);
    columns.bias = tensor(device, {s.columns}, normal_values(s.columns, 5), dtype);
  }
};

/// Calls `body` for every margin, type and shape, with and without scales and biases of columns.
void for_each_case(const std::function<void(const MarginConfig&, Shapes, DType, bool)>& body) {
  for (const Case& margin : margins)
    for (const Shapes s : shapes)
      for (const DType dtype : {DType::f64, DType::f32})
        for (const bool has_scale : {false, true}) {
          CAPTURE(margin.name);
          CAPTURE(s.rows);
          CAPTURE(s.columns);
          CAPTURE(name_of(dtype));
          CAPTURE(has_scale);
          body(margin.config, s, dtype, has_scale);
        }
}

Tensor row_values(Device& device, Shapes s, DType dtype, std::uint64_t seed, double plus = 0) {
  Values values = normal_values(s.rows, seed);
  for (double& value : values) value += plus;
  return tensor(device, {s.rows}, values, dtype);
}
/// Without weights of rows, or with some, the first of which is 0.
LossFactors factors_of(Device& device, Shapes s, DType dtype, bool has_weights) {
  if (!has_weights) return {.mean_factor = 0.25};
  Values weights = positive(s.rows, 11);
  if (!weights.empty()) weights[0] = 0;
  return {.mean_factor = 0.25, .row_weights = tensor(device, {s.rows}, weights, dtype)};
}
Tensor products_of(Device& device, Shapes s, DType dtype, std::uint64_t seed) {
  Values values = cosines(s.rows * s.columns, seed);
  for (double& value : values) value *= 0.9;
  return tensor(device, {s.rows, s.columns}, values, dtype);
}

}  // namespace

TEST_CASE("head kernels: logits, their sums and gradients are the cpu's for every margin") {
  for_each_case([](const MarginConfig& config, Shapes s, DType dtype, bool has_scale) {
    compare(dtype, [&](Device& device) {
      const HeadKernels& kernels = device.backend().head();
      const Inputs in(device, config, s, dtype, has_scale);
      Tensor logits = products_of(device, s, dtype, 1);
      Tensor target_logit = Tensor::full(device, {s.rows}, dtype, 7);
      Tensor target_slope = Tensor::full(device, {s.rows}, dtype, 7);
      Tensor row_max = Tensor::empty(device, {s.rows}, dtype);
      kernels.margin_logits(in.margin, in.columns, logits, target_logit, target_slope, row_max);
      // Difference knows no infinities.
      if (s.columns == 0) {
        for (const double most : row_max.to_doubles()) CHECK(most == -std::numeric_limits<double>::infinity());
        row_max.fill(0);
      }
      const Tensor z = logits.clone();
      Tensor sums = Tensor::empty(device, {s.rows}, DType::f64);
      kernels.exponential_sums(in.margin, in.columns, logits, row_max, sums);
      const Tensor positive_sums = s.columns == 0 ? Tensor::full(device, {s.rows}, DType::f64, 2) : sums;
      Tensor log_sums = Tensor::empty(device, {s.rows}, dtype);
      Tensor loss = Tensor::empty(device, {s.rows}, dtype);
      kernels.margin_loss(row_max, positive_sums, target_logit, log_sums, loss);
      kernels.margin_gradient(in.margin, in.columns, log_sums, target_slope, factors_of(device, s, dtype, has_scale),
                              logits);
      return Tensors{z, target_logit, target_slope, row_max, sums, log_sums, loss, logits};
    });
  });
}

TEST_CASE("head kernels: tiles of exponentials and the gradients from them are the cpu's for every margin") {
  for_each_case([](const MarginConfig& config, Shapes s, DType dtype, bool has_scale) {
    compare(dtype, [&](Device& device) {
      const HeadKernels& kernels = device.backend().head();
      const Inputs in(device, config, s, dtype, has_scale);
      // A row more before the exponentials, so that they are not aligned as the gradients are.
      Tensor logits = products_of(device, {s.rows + 1, s.columns}, dtype, 1).rows(1, s.rows + 1);
      const Tensor reference = row_values(device, s, dtype, 6);
      Tensor sums = tensor(device, {s.rows}, positive(s.rows, 7));
      kernels.accumulate_exponentials(in.margin, in.columns, reference, logits, sums);
      const HeadSoftmax known{reference, row_values(device, s, dtype, 8, 2), row_values(device, s, dtype, 9),
                              row_values(device, s, dtype, 10)};
      const auto gradient_from = [&](const Tensor& exponentials) {
        Tensor gradient = Tensor::empty_like(exponentials);
        const LossFactors factors = factors_of(device, s, dtype, has_scale);
        kernels.stashed_gradient(config, in.columns, factors, known, exponentials, gradient);
        return gradient;
      };
      const Tensor gradient = gradient_from(logits);
      if (dtype == DType::f64) return Tensors{logits, sums, gradient};
      Tensor rounded = Tensor::empty(device, {s.rows + 1, s.columns}, DType::bf16).rows(1, s.rows + 1);
      device.backend().elementwise().cast(logits, rounded);
      CHECK(difference(gradient_from(rounded).to_doubles(), gradient.to_doubles()) < 1.0 / 128);  // rounded twice
      return Tensors{logits, sums, gradient};
    });
  });
}

TEST_CASE("head kernels: exponentials in one pass over products are those of two passes, and the cpu's") {
  for_each_case([](const MarginConfig& config, Shapes s, DType dtype, bool has_scale) {
    if (has_negative_map(config)) return;
    compare(dtype, [&](Device& device) {
      const HeadKernels& kernels = device.backend().head();
      const Inputs in(device, config, s, dtype, has_scale);
      const Tensor reference = row_values(device, s, dtype, 6);
      const auto sums_before = [&] { return tensor(device, {s.rows}, positive(s.rows, 7)); };
      // A row more before the products, so that rows begin anywhere.
      const auto products = [&] { return products_of(device, {s.rows + 1, s.columns}, dtype, 1).rows(1, s.rows + 1); };
      Tensors two{products(), row_values(device, s, dtype, 9), row_values(device, s, dtype, 10), sums_before()};
      Tensor row_max = Tensor::empty(device, {s.rows}, dtype);
      kernels.margin_logits(in.margin, in.columns, two[0], two[1], two[2], row_max);
      kernels.accumulate_exponentials(in.margin, in.columns, reference, two[0], two[3]);
      Tensors one{products(), row_values(device, s, dtype, 9), row_values(device, s, dtype, 10), sums_before()};
      kernels.product_exponentials(in.margin, in.columns, reference, one[0], one[1], one[2], one[0], one[3]);
      for (std::size_t i = 0; i < one.size(); ++i)
        CHECK(difference(one[i].to_doubles(), two[i].to_doubles()) < (dtype == DType::f64 ? 1e-12 : 1e-4));
      if (dtype == DType::f64) return one;
      Tensors narrow{products(), row_values(device, s, dtype, 9), row_values(device, s, dtype, 10), sums_before()};
      Tensor rounded = Tensor::empty(device, {s.rows, s.columns}, DType::bf16);
      kernels.product_exponentials(in.margin, in.columns, reference, narrow[0], narrow[1], narrow[2], rounded,
                                   narrow[3]);
      CHECK(rounded.to_doubles() == in_type(one[0], DType::bf16).to_doubles());
      for (std::size_t i = 1; i < 3; ++i) CHECK(narrow[i].to_doubles() == one[i].to_doubles());
      // Rows that cannot be written as packs are added in another order.
      CHECK(difference(narrow[3].to_doubles(), one[3].to_doubles()) < 1e-13);
      return one;
    });
  });
}

TEST_CASE("head kernels: gradients with one class per row are the cpu's") {
  for_each_case([](const MarginConfig& config, Shapes s, DType dtype, bool has_scale) {
    if (has_negative_map(config)) return;
    for (const bool is_turned : {false, true}) {
      const Shapes samples = is_turned ? Shapes{s.columns, s.rows} : s;
      compare(dtype, [&](Device& device) {
        const Inputs in(device, config, samples, dtype, has_scale);
        Tensor products = products_of(device, {samples.columns, samples.rows}, dtype, 1);
        const Tensor log_sums = row_values(device, samples, dtype, 8, 30);
        device.backend().head().gradient_by_class(in.margin, in.columns, log_sums,
                                                  factors_of(device, samples, dtype, has_scale), products, products);
        if (dtype == DType::f64) return Tensors{products};
        Tensor again = products_of(device, {samples.columns, samples.rows}, dtype, 1);
        Tensor narrow = Tensor::empty(device, again.shape(), DType::bf16);
        device.backend().head().gradient_by_class(in.margin, in.columns, log_sums,
                                                  factors_of(device, samples, dtype, has_scale), again, narrow);
        CHECK(narrow.to_doubles() == in_type(products, DType::bf16).to_doubles());
        return Tensors{products};
      });
    }
  });
}

TEST_CASE("head kernels: what margins ask of rows is the cpu's") {
  for (const DType dtype : {DType::f64, DType::f32})
    for (const std::int64_t rows : {1, 5, 300})
      for (const std::int64_t width : {1, 63, 515})
        for (const std::int64_t centres : {1, 3})
          for (const bool is_optional : {false, true}) {
            compare(dtype, [&](Device& device) {
              const HeadKernels& kernels = device.backend().head();
              const Tensor labels = integers(device, labels_of({rows, 4}));
              const Tensor x = tensor(device, {rows, width}, normal_values(rows * width, 1), dtype);
              // The second centre of each is as good as the first.
              Values weights = normal_values(rows * centres * width, 2);
              for (std::int64_t row = 0; row < rows && centres > 1; ++row)
                for (std::int64_t i = 0; i < width; ++i)
                  weights[static_cast<std::size_t>((row * centres + 1) * width + i)] =
                      weights[static_cast<std::size_t>(row * centres * width + i)];
              const Tensor w = tensor(device, {rows * centres, width}, weights, dtype);
              Tensor scale = Tensor::full(device, {rows * centres}, dtype, 0.75);
              Tensor products = Tensor::empty(device, {rows}, dtype);
              Tensor radii = Tensor::empty(device, {rows}, dtype);
              Tensor best = Tensor::empty(device, {rows}, DType::i64);
              Tensor none;
              const IndexRange range{first_class, 4};
              Tensor local = Tensor::empty(device, {rows * centres}, DType::i64);
              kernels.local_columns(labels, range, local);
              if (is_optional) {
                kernels.target_products({labels, range, w, none}, x, products, none, none);
                return Tensors{products, local};
              }
              kernels.target_products({labels, range, w, scale}, x, products, radii, best);
              return Tensors{products, radii, best, local};
            });
          }
}

TEST_CASE("head kernels: rows' parameters and running statistics are the cpu's") {
  for (const Case& margin : margins)
    for (const DType dtype : {DType::f64, DType::f32})
      for (const std::int64_t rows : {1, 700}) {
        CAPTURE(margin.name);
        const bool has_running = !initial_running(margin.config).empty();
        compare(dtype, [&](Device& device) {
          const HeadKernels& kernels = device.backend().head();
          Tensor running = has_running ? tensor(device, {2}, {3, 1.5}) : Tensor();
          const Tensor statistic = tensor(
              device, {rows}, margin.config.type == MarginType::adaface ? positive(rows, 1) : cosines(rows, 1), dtype);
          Tensor parameter = Tensor::empty_like(statistic);
          Tensor moments = tensor(device, {3}, {2, 0.5, 4});
          kernels.row_parameters(margin.config, running, statistic, parameter, moments);
          if (!has_running) return Tensors{parameter, moments};
          kernels.update_running(margin.config, moments, running);
          return Tensors{parameter, moments, running};
        });
      }
}

TEST_CASE("head kernels: references rise as on the cpu, and from nothing") {
  for (const DType dtype : {DType::f64, DType::f32})
    compare(dtype, [&](Device& device) {
      const std::int64_t rows = 600;
      Values before = normal_values(rows, 1);
      const Tensor most = tensor(device, {rows}, normal_values(rows, 2), dtype);
      before[0] = -std::numeric_limits<double>::infinity();
      Tensor reference = tensor(device, {rows}, before, dtype);
      Tensor sums = tensor(device, {rows}, positive(rows, 3));
      Tensor factor = Tensor::empty(device, {rows}, dtype);
      device.backend().head().raise_reference(most, reference, sums, factor);
      CHECK(factor.to_doubles()[0] == 0);
      return Tensors{reference, sums, factor};
    });
}

TEST_CASE("head kernels: gradients of embeddings from weighted sums are the cpu's") {
  for (const DType dtype : {DType::f64, DType::f32})
    for (const Shapes s : shapes)
      for (const bool has_scale : {false, true})
        compare(dtype, [&](Device& device) {
          Tensor weighted = products_of(device, s, dtype, 1);
          const Tensor scale = has_scale ? tensor(device, {s.rows}, positive(s.rows, 2), dtype) : Tensor();
          const auto take = [&](const IndexRange& range, const Tensor& target_rows) {
            device.backend().head().fused_gradient(
                {.scale = 12}, factors_of(device, s, dtype, has_scale),
                {integers(device, labels_of(s)), range, target_rows, target_rows.defined() ? scale : Tensor()},
                {row_values(device, s, dtype, 3), row_values(device, s, dtype, 4, 1), row_values(device, s, dtype, 5),
                 row_values(device, s, dtype, 6)},
                weighted);
          };
          take({first_class, s.columns / 2 + 1}, products_of(device, s, dtype, 7));
          take({first_class, 0}, Tensor());
          return Tensors{weighted};
        });
}

TEST_CASE("head kernels: gradients by lengths are the cpu's, also of classes that several rows share") {
  const MarginConfig margin{.type = MarginType::l_softmax, .scale = 4};
  for (const DType dtype : {DType::f64, DType::f32})
    for (const bool is_indexed : {false, true})
      for (const Shapes s : {Shapes{1, 3}, Shapes{9, 300}, Shapes{400, 17}})
        compare(dtype, [&](Device& device) {
          const HeadKernels& kernels = device.backend().head();
          const StepMargin step{.config = margin, .parameter = Tensor::full(device, {s.rows}, dtype, 6)};
          Tensor share = Tensor::empty(device, {s.rows}, dtype);
          kernels.radial_share(step, row_values(device, s, dtype, 2), row_values(device, s, dtype, 3, 3),
                               factors_of(device, s, dtype, is_indexed), share);
          const std::int64_t count = is_indexed ? 5 : s.rows;
          Values values = normal_values(count * s.columns, 4);
          std::fill_n(values.begin(), s.columns, 0.0);
          const Tensor rows = tensor(device, {count, s.columns}, values, dtype);
          Tensor gradient = tensor(device, {count, s.columns}, normal_values(count * s.columns, 5), dtype);
          kernels.add_radial(share, is_indexed ? integers(device, labels_of({s.rows, 5})) : Tensor(),
                             is_indexed ? first_class : 0, rows, gradient);
          return Tensors{share, gradient};
        });
}

TEST_CASE("head kernels: the best of several centres and their gradients are the cpu's, ties included") {
  for (const DType dtype : {DType::f64, DType::f32})
    for (const Shapes s : shapes)
      for (const std::int64_t centres : {1, 3})
        for (const bool has_scale : {false, true})
          compare(dtype, [&](Device& device) {
            const HeadKernels& kernels = device.backend().head();
            Values values = cosines(s.rows * s.columns * centres, 1);
            for (double& value : values) value = std::round(4 * value);
            const Tensor products = tensor(device, {s.rows, s.columns * centres}, values, dtype);
            const Tensor scale = has_scale ? Tensor::full(device, {s.columns * centres}, dtype, 0.75) : Tensor();
            Tensor best_cosines = Tensor::empty(device, {s.rows, s.columns}, dtype);
            Tensor best = Tensor::empty(device, {s.rows, s.columns}, DType::u8);
            kernels.best_centres(products, scale, best_cosines, best);
            Tensor gradient = Tensor::empty_like(products);
            kernels.spread_centres(best_cosines, best, scale, gradient);
            return Tensors{best_cosines, best, gradient};
          });
}

TEST_CASE("head kernels: 16-bit logits are refused") {
  Device device = make_device();
  Tensor narrow = Tensor::zeros(device, {2}, DType::bf16);
  Tensor sums = Tensor::zeros(device, {2}, DType::f64);
  CHECK_THROWS_WITH_AS(device.backend().head().raise_reference(narrow, narrow, sums, narrow),
                       "raise_reference: expected f32 or f64 logits, got bf16", InputError);
}

TEST_SUITE_END();

}  // namespace heddle::test::cuda_head_test

// The first weights of classes, and weights of eight bits.
#include <algorithm>
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include "framework/scalars/rounding.h"
#include "framework/scalars/scalar.h"
#include "framework/tensors/index_range.h"
#include "tests/framework/kernels/class_tables.h"
#include "tests/support/compare/close_to.h"

namespace heddle::test {
namespace {

using namespace class_tables;

TEST_CASE("Initial rows do not depend on the shards, and are the normal draws of their global elements") {
  Device device = make_device();
  for (const DType dtype : weight_types)
    for (const ClassInitial::Kind kind : {ClassInitial::Kind::normal, ClassInitial::Kind::unit}) {
      const ClassInitial initial{.kind = kind, .deviation = 0.3};
      const ClassTable whole = drawn_table(device, dtype, classes, 0, false, initial);
      for (const IndexRange shard : {IndexRange{0, 2}, IndexRange{2, 0}, IndexRange{2, 7}}) {
        const ClassTable part = drawn_table(device, dtype, shard.size, shard.begin, false, initial);
        CHECK(part.weight.to_doubles() == whole.weight.rows(shard.begin, shard.end()).to_doubles());
        if (dtype == DType::i8)
          CHECK(part.scale.to_doubles() == whole.scale.rows(shard.begin, shard.end()).to_doubles());
      }
      if (kind == ClassInitial::Kind::unit || dtype == DType::i8) continue;
      Tensor filled = Tensor::empty_like(whole.weight);
      device.backend().training().fill_normal(filled, {.key = {5}}, 0, 0, 0.3);
      CHECK(whole.weight.to_doubles() == filled.to_doubles());
    }
}

TEST_CASE("Unit rows have length one and elements of every size on both sides of zero") {
  Device device = make_device();
  for (const DType dtype : weight_types) {
    const ClassTable table = drawn_table(device, dtype, classes, 0, false, {.kind = ClassInitial::Kind::unit});
    const Loaded loaded = load(table, {.size = classes});
    const double tolerance = dtype == DType::f64 || dtype == DType::f32 ? 1e-6 : 4e-3;
    for (const double inverse : loaded.inverse_norm.to_doubles()) CHECK(std::abs(inverse - 1) < tolerance);
    // Uniform draws of this length end at sqrt(3 / d).
    const double end = std::sqrt(3.0 / columns);
    const std::vector<double> values = loaded.rows.to_doubles();
    for (const double place : {-0.9, -0.5, 0.0, 0.5, 0.9}) {
      const auto below = static_cast<double>(
          std::count_if(values.begin(), values.end(), [=](double value) { return value < place * end; }));
      const double share = (1 + place) / 2;
      const auto count = static_cast<double>(values.size());
      // A row's own length moves its end by some percent.
      CHECK(std::abs(below / count - share) < 5 * std::sqrt(share * (1 - share) / count) + 0.02);
    }
  }
}

TEST_CASE("Eight-bit rows are off by half a step of their scale at most") {
  Device device = make_device();
  const ClassTable exact = drawn_table(device, DType::f32);
  const ClassTable table = drawn_table(device, DType::i8);
  const std::vector<double> values = exact.weight.to_doubles();
  const std::vector<double> read = load(table, {.size = classes}).rows.to_doubles();
  const std::vector<double> scales = table.scale.to_doubles();
  for (std::int64_t row = 0; row < classes; ++row) {
    double largest = 0;
    double error = 0;
    for (std::int64_t i = row * columns; i < (row + 1) * columns; ++i) {
      const auto at = static_cast<std::size_t>(i);
      largest = std::max(largest, std::abs(values[at]));
      error = std::max(error, std::abs(values[at] - read[at]));
    }
    const double scale = scales[static_cast<std::size_t>(row)];
    CHECK(scale == close_to(largest / 127).epsilon(1e-6));
    CHECK(error <= 0.5001 * scale);
    CHECK(error > 0.4 * scale);
  }
}

TEST_CASE("A row of zeros stays zero in eight bits, and a row that is not finite does not look finite") {
  Device device = make_device();
  ClassTable table = drawn_table(device, DType::i8, 3);
  table.momentum = Tensor();
  const ClassStep step{.update = SgdStep{.learning_rate = 1}, .rounding = sgd_step().rounding};
  std::vector<double> gradient = load(table, {.size = 3}).rows.to_doubles();  // these are subtracted from the rows
  gradient[columns + 5] = std::nan("");
  gradient[2 * columns + 5] = std::numeric_limits<double>::infinity();
  const Tensor products = tensor(device, {3, columns}, gradient, DType::f32);
  const Loaded loaded = load(table, {.size = 3});
  device.backend().class_rows().step(table, {.size = 3}, loaded.rows, Tensor(), products, step);
  const std::vector<double> rows = load(table, {.size = 3}).rows.to_doubles();
  CHECK(std::all_of(rows.begin(), rows.begin() + columns, [](double value) { return value == 0; }));
  CHECK(std::none_of(rows.begin() + columns, rows.end(), [](double value) { return std::isfinite(value); }));
}

TEST_CASE("Rows in bf16 round each element by its draw, whether all are far below the largest number or not") {
  Device device = make_device();
  const double largest = std::numeric_limits<float>::max();
  const std::vector<std::vector<double>> rarities{
      {}, {largest}, {-largest, 3.3895e38}, {std::numeric_limits<double>::infinity()}, {std::nan(""), 1e-40}};
  const auto count = static_cast<std::int64_t>(rarities.size());
  std::vector<double> values = normal_values(count * columns, 11);
  for (std::size_t row = 0; row < rarities.size(); ++row)
    std::copy(rarities[row].begin(), rarities[row].end(), values.begin() + static_cast<std::ptrdiff_t>(row) * columns);
  std::vector<double> gradient(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) gradient[i] = -values[i];
  ClassTable table{.weight = Tensor::zeros(device, {count, columns}, DType::bf16), .momentum = {}};
  const ClassStep step{.update = SgdStep{.learning_rate = 1}, .rounding = sgd_step().rounding};
  const Tensor zeros = Tensor::zeros(device, {count, columns}, DType::f32);
  device.backend().class_rows().step(table, {.size = count}, zeros, Tensor(),
                                     tensor(device, {count, columns}, gradient, DType::f32), step);
  const std::vector<BFloat16> rounded = table.weight.to_host<BFloat16>();
  const PhiloxBlock words = purpose_key(step.rounding.key, step.rounding.purpose);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const RoundingDraw place = rounding_draw(RoundedState::weight, i);
    const std::uint32_t draw =
        (draw_block(words, step.rounding, place.block).word[place.word] >> place.shift) & 0xFFFFU;
    const int compared = std::isnan(values[i]) ? 0x7FFF : 0xFFFF;  // the sign of a NaN is arbitrary
    CHECK((rounded[i].bits & compared) == (round_to_bf16(static_cast<float>(values[i]), draw) & compared));
  }
}

}  // namespace
}  // namespace heddle::test

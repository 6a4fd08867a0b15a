// Kernels of class rows on the tested backend against the cpu's, on the same inputs: to the bit, where no sum of many
// terms and no choice of which product of two to fuse with their sum stands between.
#include <cmath>
#include <functional>

#include <doctest/doctest.h>

#include "framework/kernels/class_rows.h"
#include "framework/scalars/sgd_map.h"
#include "tests/support/compare/close_to.h"
#include "tests/support/compare/difference.h"
#include "tests/support/devices.h"

namespace heddle::test::cuda_class_rows_test {

TEST_SUITE_BEGIN(beside_cpu);

namespace {

struct Shapes {
  std::int64_t rows, columns;
};
/// Several rows per block and one, rows that are longer than what a block holds at once, odd ones.
const std::vector<Shapes> shapes{{70, 1},   {9, 2},    {33, 127}, {17, 128}, {9, 300},
                                 {21, 512}, {3, 1100}, {3, 2500}, {2, 4097}};

const std::vector<DType> weight_types{DType::f64, DType::f32, DType::bf16, DType::f16, DType::i8};

/// Momentum that may stand beside such weights; i64: none.
std::vector<DType> momentum_types(DType weight) {
  if (weight == DType::f64) return {DType::i64, DType::f64};
  return {DType::i64, DType::f32, DType::bf16, DType::f16};
}

struct Case {
  Shapes shape;
  DType weight;
  DType momentum = DType::i64;
  bool has_square = false;
  std::int64_t first_element = 0;
  std::int64_t row_stride = 0;
};

/// Rows of different lengths.
Values row_values(Shapes s, std::uint64_t seed) {
  Values values = normal_values(s.rows * s.columns, seed);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] *= 1 + static_cast<double>(static_cast<std::int64_t>(i) / s.columns % 5);
  return values;
}

Tensor eighths(Device& device, Shapes s) {
  std::vector<std::int8_t> values;
  for (const double value : normal_values(s.rows * s.columns, 1))
    values.push_back(static_cast<std::int8_t>(std::clamp(40 * value, -127.0, 127.0)));
  return Tensor::from_host(device, {s.rows, s.columns}, values);
}

ClassTable table_of(Device& device, const Case& c) {
  const Shape shape{c.shape.rows, c.shape.columns};
  ClassTable table;
  table.weight =
      c.weight == DType::i8 ? eighths(device, c.shape) : tensor(device, shape, row_values(c.shape, 1), c.weight);
  if (c.weight == DType::i8) {
    Values scales = normal_values(c.shape.rows, 2);
    for (double& scale : scales) scale = 0.01 * (1 + std::abs(scale));
    table.scale = tensor(device, {c.shape.rows}, scales, DType::f32);
  }
  if (c.momentum != DType::i64) table.momentum = tensor(device, shape, row_values(c.shape, 3), c.momentum);
  if (c.has_square) {
    Values squares = row_values(c.shape, 4);
    for (double& square : squares) square *= square;
    table.square = tensor(device, shape, squares, compute_dtype(c.weight));
  }
  table.taken = Tensor::zeros(device, {c.shape.rows}, DType::i32);
  return table;
}

/// Every second row but the last ones, or all but the first two and the last.
ClassSelection selection_of(Device& device, Shapes s, bool is_indexed) {
  if (!is_indexed) return s.rows > 3 ? ClassSelection{2, s.rows - 3} : ClassSelection{0, s.rows};
  std::vector<std::int64_t> index;
  for (std::int64_t row = 0; row < s.rows; row += 2) index.push_back(row);
  return {.size = static_cast<std::int64_t>(index.size()), .index = integers(device, index)};
}

/// Everything that a table holds, as values that can be compared to the bit.
std::vector<Values> state_of(const ClassTable& table) {
  std::vector<Values> state;
  if (table.weight.dtype() == DType::i8) {
    const std::vector<std::int8_t> weight = table.weight.to_host<std::int8_t>();
    state.emplace_back(weight.begin(), weight.end());
    state.push_back(table.scale.to_doubles());
  } else {
    state.push_back(table.weight.to_doubles());
  }
  for (const Tensor& part : {table.momentum, table.square})
    if (part.defined()) state.push_back(part.to_doubles());
  const std::vector<std::int32_t> taken = table.taken.to_host<std::int32_t>();
  state.emplace_back(taken.begin(), taken.end());
  return state;
}

/// Steps the rows that a selection loads, the weight's own where these are given, with norms or without.
std::vector<Values> stepped(Device& device, const Case& c, const OptimizerStep& update, bool is_indexed,
                            bool is_normalised, bool has_products, bool are_narrow = false) {
  const ClassRowKernels& kernels = device.backend().class_rows();
  ClassTable table = table_of(device, c);
  const ClassSelection selection = selection_of(device, c.shape, is_indexed);
  const DType compute = compute_dtype(c.weight);
  Tensor rows = Tensor::empty(device, {selection.size, c.shape.columns}, compute);
  Tensor inverse;
  Tensor none;
  kernels.load(table, selection, 1e-12, rows, none);
  if (is_normalised) {
    // The cpu's, so that only the steps differ.
    Values norms = normal_values(selection.size, 6);
    inverse = tensor(device, {selection.size}, norms, compute);
  }
  if (are_narrow) {
    const Tensor wide = rows;
    rows = Tensor::empty(device, wide.shape(), c.weight);
    device.backend().elementwise().cast(wide, rows);
  }
  const Tensor products = has_products ? tensor(device, {selection.size, c.shape.columns},
                                                normal_values(selection.size * c.shape.columns, 7), compute)
                                       : Tensor();
  const ClassStep step{.update = update,
                       .bound = 1.5,
                       .factor = 0.7,
                       .rounding = {.key = {7}, .purpose = Purpose::rounding, .step = 3, .layer = 2},
                       .first_element = c.first_element,
                       .row_stride = c.row_stride,
                       .taken = 5};
  kernels.step(table, selection, rows, inverse, products, step);
  return state_of(table);
}

const std::vector<OptimizerStep> sgd_updates{
    SgdStep{.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.01},
    SgdStep{.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true},
};
const OptimizerStep adamw_update = AdamWStep{.learning_rate = 0.1, .weight_decay = 0.01, .step = 3};

/// Whether two tables are the same but for last bits: those of a sum may turn the rounding of an element that is about
/// to be turned.
void check_alike(const std::vector<Values>& state, const std::vector<Values>& expected, const Case& c) {
  REQUIRE(state.size() == expected.size());
  const bool is_narrow = size_of(c.weight) < 4 || c.momentum == DType::bf16 || c.momentum == DType::f16;
  for (std::size_t part = 0; part < state.size(); ++part) {
    CAPTURE(part);
    double most = 0;
    for (const double value : expected[part]) most = std::max(most, std::abs(value));
    const auto differs = [most](double a, double b) { return std::abs(a - b) > 3e-6 * most; };
    std::size_t turned = 0;
    for (std::size_t i = 0; i < state[part].size(); ++i) turned += differs(state[part][i], expected[part][i]) ? 1 : 0;
    if (is_narrow) CHECK(turned <= 1 + state[part].size() / 500);
    CHECK(difference(state[part], expected[part]) < (is_narrow ? 0.01 : c.weight == DType::f64 ? 1e-13 : 3e-6));
  }
}

}  // namespace

TEST_CASE("class row kernels: loaded rows are the cpu's to the bit, and their norms") {
  Device device = make_device();
  Device reference = make_device("cpu");
  for (const Shapes s : shapes)
    for (const DType dtype : weight_types)
      for (const bool is_indexed : {false, true}) {
        CAPTURE(s.columns);
        CAPTURE(name_of(dtype));
        const auto load = [&](Device& on, bool has_rows) {
          const ClassTable table = table_of(on, {.shape = s, .weight = dtype});
          const ClassSelection selection = selection_of(on, s, is_indexed);
          const DType compute = compute_dtype(dtype);
          Tensor rows = has_rows ? Tensor::empty(on, {selection.size, s.columns}, compute) : Tensor();
          Tensor inverse = Tensor::empty(on, {selection.size}, compute);
          on.backend().class_rows().load(table, selection, 1e-12, rows, inverse);
          return std::pair(has_rows ? rows.to_doubles() : Values(), inverse.to_doubles());
        };
        const auto [rows, inverse] = load(device, true);
        const auto [expected, norms] = load(reference, true);
        CHECK(rows == expected);
        CHECK(difference(inverse, norms) < (dtype == DType::f64 ? 1e-14 : 1e-6));
        CHECK(load(device, false).second == inverse);
      }
}

TEST_CASE("class row kernels: an sgd step without norms has the cpu's bits, in every type of state") {
  Device device = make_device();
  Device reference = make_device("cpu");
  for (const Shapes s : shapes)
    for (const DType weight : weight_types)
      for (const DType momentum : momentum_types(weight))
        for (const OptimizerStep& update : sgd_updates)
          for (const std::int64_t first_element : {std::int64_t{0}, std::int64_t{3}, (std::int64_t{1} << 36) + 64}) {
            CAPTURE(s.columns);
            CAPTURE(name_of(weight));
            CAPTURE(name_of(momentum));
            CAPTURE(first_element);
            const Case c{s, weight, momentum, false, first_element};
            const bool is_indexed = first_element != 3;
            const bool has_products = first_element != 0;
            CHECK(stepped(device, c, update, is_indexed, false, has_products) ==
                  stepped(reference, c, update, is_indexed, false, has_products));
          }
}

TEST_CASE("class row kernels: a step of rows that were copied in 16 bits has the cpu's bits") {
  Device device = make_device();
  Device reference = make_device("cpu");
  for (const Shapes s : shapes)
    for (const DType weight : {DType::bf16, DType::f16}) {
      const Case c{.shape = s, .weight = weight, .momentum = weight};
      CHECK(stepped(device, c, sgd_updates[0], true, false, true, true) ==
            stepped(reference, c, sgd_updates[0], true, false, true, true));
    }
}

TEST_CASE("class row kernels: a step of rows that lie apart in the whole has the cpu's bits, and draws of its own") {
  Device device = make_device();
  Device reference = make_device("cpu");
  for (const Shapes s : shapes)
    for (const std::int64_t gap : {std::int64_t{0}, std::int64_t{1}, std::int64_t{300}, 4096 - s.columns % 128}) {
      const Case c{.shape = s,
                   .weight = DType::bf16,
                   .momentum = DType::bf16,
                   .first_element = 256,
                   .row_stride = s.columns + gap};
      CAPTURE(s.columns);
      CAPTURE(gap);
      const auto rows = stepped(device, c, sgd_updates[0], false, false, true, true);
      CHECK(rows == stepped(reference, c, sgd_updates[0], false, false, true, true));
      Case together = c;
      together.row_stride = 0;
      if (s.rows * s.columns < 500) continue;  // few elements may be rounded alike by chance
      CHECK((rows == stepped(reference, together, sgd_updates[0], false, false, true, true)) == (gap == 0));
    }
}

TEST_CASE("class row kernels: a step of adamw, or through the norms, is the cpu's but for last bits") {
  Device device = make_device();
  Device reference = make_device("cpu");
  for (const Shapes s : shapes)
    for (const DType weight : weight_types)
      for (const DType momentum : momentum_types(weight))
        for (const bool is_adamw : {false, true})
          for (const bool is_normalised : {false, true}) {
            if ((is_adamw && momentum == DType::i64) || (!is_adamw && !is_normalised)) continue;
            CAPTURE(s.columns);
            CAPTURE(name_of(weight));
            CAPTURE(name_of(momentum));
            CAPTURE(is_adamw);
            CAPTURE(is_normalised);
            const Case c{s, weight, momentum, is_adamw, 128};
            const OptimizerStep& update = is_adamw ? adamw_update : sgd_updates[0];
            check_alike(stepped(device, c, update, true, is_normalised, true),
                        stepped(reference, c, update, true, is_normalised, true), c);
          }
}

TEST_CASE("class row kernels: squares of gradients are the cpu's, and tiles change no bit") {
  Device device = make_device();
  Device reference = make_device("cpu");
  for (const Shapes s : shapes)
    for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16})
      for (const bool is_normalised : {false, true}) {
        const auto add = [&](Device& on, const std::vector<std::int64_t>& ends) {
          const DType compute = compute_dtype(dtype);
          const Tensor rows = tensor(on, {s.rows, s.columns}, row_values(s, 1), dtype);
          const Tensor products = tensor(on, {s.rows, s.columns}, row_values(s, 2), compute);
          const Tensor norms = tensor(on, {s.rows}, normal_values(s.rows, 3), compute);
          Tensor result = Tensor::full(on, {1}, DType::f64, 0.1);
          std::int64_t begin = 0;
          for (const std::int64_t end : ends) {
            on.backend().class_rows().add_squared_gradient(rows.rows(begin, end),
                                                           is_normalised ? norms.rows(begin, end) : Tensor(),
                                                           products.rows(begin, end), 2, result);
            begin = end;
          }
          return result.item();
        };
        const double whole = add(device, {s.rows});
        CHECK(whole == close_to(add(reference, {s.rows})).epsilon(dtype == DType::f64 ? 1e-13 : 1e-5));
        CHECK(whole == add(device, {1, s.rows / 2, s.rows}));
      }
}

TEST_CASE("class row kernels: squares of more rows than the scratch holds are added in their order, too") {
  Device device = make_device();
  Device reference = make_device("cpu");
  constexpr std::int64_t rows = (1 << 20) + 70;
  const auto add = [](Device& on) {
    std::vector<float> values(rows);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(1 + i % 1013) * 1e-3F;
    const Tensor products = Tensor::from_host(on, {rows, 1}, values);
    Tensor result = Tensor::zeros(on, {1}, DType::f64);
    on.backend().class_rows().add_squared_gradient(products, Tensor(), products, 0, result);
    return result.item();
  };
  CHECK(add(device) == add(reference));
}

TEST_CASE("class row kernels: rows catch up as on the cpu") {
  Device device = make_device();
  Device reference = make_device("cpu");
  constexpr std::int64_t count = 37;
  Values maps(static_cast<std::size_t>(2 * count * 4));
  for (std::size_t i = 0; i < maps.size(); i += 4) {
    const SgdMap map = sgd_map<float>({.learning_rate = 0.001 * static_cast<double>(i), .momentum = 0.9});
    maps[i] = map.ww;
    maps[i + 1] = map.wv;
    maps[i + 2] = map.vw;
    maps[i + 3] = map.vv;
  }
  for (const Shapes s : shapes)
    for (const DType dtype : {DType::f64, DType::f32})
      for (const bool has_momentum : {false, true})
        for (const bool is_indexed : {false, true}) {
          const auto caught_up = [&](Device& on) {
            ClassTable table =
                table_of(on, {.shape = s, .weight = dtype, .momentum = has_momentum ? dtype : DType::i64});
            std::vector<std::int32_t> taken;
            for (std::int64_t row = 0; row < s.rows; ++row) taken.push_back(static_cast<std::int32_t>(row * 11 % 39));
            table.taken = Tensor::from_host(on, {s.rows}, taken);
            on.backend().class_rows().catch_up(table, selection_of(on, s, is_indexed),
                                               {count, tensor(on, {2 * count, 4}, maps)});
            return state_of(table);
          };
          check_alike(caught_up(device), caught_up(reference), {.shape = s, .weight = dtype});
        }
}

TEST_CASE("class row kernels: new rows are the cpu's, normal ones to the bit") {
  Device device = make_device();
  Device reference = make_device("cpu");
  for (const Shapes s : shapes)
    for (const DType dtype : weight_types)
      for (const ClassInitial::Kind kind : {ClassInitial::Kind::normal, ClassInitial::Kind::unit}) {
        const auto drawn = [&](Device& on) {
          ClassTable table = table_of(on, {.shape = s, .weight = dtype});
          on.backend().class_rows().fill(table, {.key = {5}, .step = 1, .layer = 2}, 3 * s.columns,
                                         {.kind = kind, .deviation = 0.3});
          return state_of(table);
        };
        const std::vector<Values> state = drawn(device);
        const std::vector<Values> expected = drawn(reference);
        CAPTURE(s.columns);
        CAPTURE(name_of(dtype));
        if (kind == ClassInitial::Kind::normal)
          CHECK(state == expected);
        else
          for (std::size_t part = 0; part < state.size(); ++part)
            CHECK(difference(state[part], expected[part]) < (dtype == DType::f64   ? 1e-14
                                                             : dtype == DType::f32 ? 1e-6
                                                                                   : 0.01));
      }
}

TEST_CASE("class row kernels: an index outside the table is reported once") {
  Device device = make_device();
  ClassTable table = table_of(device, {.shape = {9, 300}, .weight = DType::f32});
  Tensor rows = Tensor::zeros(device, {3, 300}, DType::f32);
  Tensor none;
  const ClassRowKernels& kernels = device.backend().class_rows();
  const auto error_of = [&](const std::function<void()>& work) {
    try {
      work();
      device.backend().synchronize();
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  const auto index = [&](const std::vector<std::int64_t>& values) {
    return ClassSelection{.size = static_cast<std::int64_t>(values.size()), .index = integers(device, values)};
  };
  CHECK(error_of([&] {
          kernels.load(table, index({8, -1, 9}), 0, rows, none);
        }) == "class rows: expected rows of 9, got -1 in place 1");
  const ClassStep step{.update = SgdStep{.learning_rate = 0}};
  CHECK(error_of([&] {
          kernels.step(table, index({-3, 2, 9}), rows, none, none, step);
        }) == "class rows: expected ascending rows of 9, got -3 in place 0");
  CHECK(error_of([&] {
          kernels.step(table, index({1, 2, 2}), rows, none, none, step);
        }) == "class rows: expected ascending rows of 9, got 2 in place 2");
  CHECK(error_of([] {}) == "none");
}

TEST_SUITE_END();

}  // namespace heddle::test::cuda_class_rows_test

#include "framework/kernels/class_rows.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <doctest/doctest.h>

#include "framework/optimizers/optimizer.h"
#include "framework/scalars/rounding.h"
#include "framework/tensors/index_range.h"
#include "tests/framework/kernels/class_tables.h"
#include "tests/support/compare/close_to.h"
#include "tests/support/devices.h"
#include "tests/support/message.h"

namespace heddle::test {
namespace {

using namespace class_tables;

TEST_CASE("Loaded rows are the table's to the bit, and their norms the rows'") {
  Device device = make_device();
  for (const DType dtype : weight_types) {
    const ClassTable table = drawn_table(device, dtype);
    const Loaded all = load(table, {.size = classes});
    std::vector<double> expected = table.weight.to_doubles();
    if (dtype == DType::i8)
      for (std::size_t i = 0; i < expected.size(); ++i)
        expected[i] = static_cast<float>(expected[i]) * table.scale.to_host<float>()[i / columns];
    CHECK(all.rows.to_doubles() == expected);
    Tensor inverse = Tensor::empty_like(all.inverse_norm);
    Tensor none;
    device.backend().normalization().l2_normalize(all.rows, epsilon, none, inverse);
    CHECK(all.inverse_norm.to_doubles() == inverse.to_doubles());
    Tensor norms_only = Tensor::empty_like(inverse);
    device.backend().class_rows().load(table, {.size = classes}, epsilon, none, norms_only);
    CHECK(norms_only.to_doubles() == inverse.to_doubles());
    const Loaded some = load(table, {.size = 3, .index = integers(device, {1, 2, 7})});
    CHECK(some.rows.rows(2, 3).to_doubles() == all.rows.rows(7, 8).to_doubles());
    CHECK(some.inverse_norm.to_doubles()[1] == inverse.to_doubles()[2]);
  }
}

TEST_CASE("A step of f32 and f64 rows is the optimizer's, fed with the gradient through the normalisation") {
  Device device = make_device();
  const std::vector<OptimizerConfig> configs{
      {.weight_decay = 0, .momentum = 0},
      {.weight_decay = 0.01, .momentum = 0.9},
      {.weight_decay = 0.01, .momentum = 0.9, .nesterov = true},
      {.type = OptimizerType::adamw, .weight_decay = 0.01},
  };
  constexpr double rate = 0.05;
  constexpr double bound = 0.2;
  constexpr double factor = 0.7;
  for (const DType dtype : {DType::f64, DType::f32})
    for (const OptimizerConfig& config : configs)
      for (const bool is_normalised : {true, false}) {
        const bool is_adamw = config.type == OptimizerType::adamw;
        ClassTable table = drawn_table(device, dtype, classes, 0, is_adamw);
        if (!is_adamw && config.momentum == 0) table.momentum = Tensor();
        const Tensor weight = table.weight.clone();
        const auto optimizer = make_optimizer(config, {{"weight", weight}});
        for (std::int64_t step = 0; step < 3; ++step) {
          const Tensor products = tensor(device, {classes, columns},
                                         row_values(classes, static_cast<std::uint64_t>(20 + step), 0.1), dtype);
          Tensor inverse = Tensor::empty(device, {classes}, dtype);
          Tensor unit;
          device.backend().normalization().l2_normalize(weight, epsilon, unit, inverse);
          Tensor gradient = products.clone();
          if (is_normalised)
            device.backend().normalization().l2_normalize_backward(weight, inverse, products, gradient);
          device.backend().training().clamp(gradient, bound);
          device.backend().elementwise().scale_add(factor, gradient, 0, gradient);
          optimizer->step(step, rate, {gradient});

          // f32 and f64 rows are read where they are, in two tiles.
          for (const IndexRange tile : {IndexRange{0, 4}, IndexRange{4, 5}}) {
            Tensor none;
            Tensor norms = Tensor::empty(device, {tile.size}, dtype);
            const ClassSelection selection{tile.begin, tile.size};
            device.backend().class_rows().load(table, selection, epsilon, none, norms);
            device.backend().class_rows().step(
                table, selection, table.weight.rows(tile.begin, tile.end()), is_normalised ? norms : Tensor(),
                products.rows(tile.begin, tile.end()),
                {.update = step_of(config, step, rate, config.weight_decay), .bound = bound, .factor = factor});
          }
          CHECK(table.weight.to_doubles() == weight.to_doubles());
        }
        const std::vector<Optimizer::State> state = optimizer->state();
        if (!state.empty()) CHECK(table.momentum.to_doubles() == state[0].value.to_doubles());
        if (is_adamw) CHECK(table.square.to_doubles() == state[1].value.to_doubles());
      }
}

TEST_CASE("Rows that are stepped into another table come out as in their place, and stay in their own") {
  Device device = make_device();
  const auto copy_of = [](const ClassTable& table) {
    const auto copied = [](const Tensor& x) { return x.defined() ? x.clone() : x; };
    return ClassTable{.weight = copied(table.weight),
                      .scale = copied(table.scale),
                      .momentum = copied(table.momentum),
                      .square = copied(table.square)};
  };
  for (const DType dtype : weight_types)
    for (const bool is_adamw : {false, true}) {
      ClassTable table = drawn_table(device, dtype, classes, 0, is_adamw);
      ClassStep step = sgd_step();
      if (is_adamw) step.update = AdamWStep{.learning_rate = 0.1, .weight_decay = 0.01, .step = 1};
      const Tensor products = products_of(device, dtype, 0, classes);
      ClassTable in_place = copy_of(table);
      step_rows(in_place, {.size = classes}, products, step);
      const std::vector<double> before = state_of(table);
      ClassTable target = copy_of(table);
      target.weight.fill(0);
      step.target = &target;
      if (!device.backend().class_rows().can_step_into_target()) {
        CHECK_THROWS_WITH_AS(step_rows(table, {.size = classes}, products, step),
                             "class rows: cuda steps rows in their place", Error);
        continue;
      }
      step_rows(table, {.size = 4}, products.rows(0, 4), step);
      step_rows(table, {4, 5}, products.rows(4, classes), step);
      CHECK(state_of(target) == state_of(in_place));
      CHECK(state_of(table) == before);
      target.momentum = Tensor();
      CHECK_THROWS_WITH_AS(step_rows(table, {.size = classes}, products, step),
                           ("class rows: " + to_string(table.momentum) + " cannot be stepped into none").c_str(),
                           Error);
    }
}

TEST_CASE("A step without products is one of zero gradients: decay and momentum act") {
  Device device = make_device();
  for (const DType dtype : weight_types) {
    ClassTable table = drawn_table(device, dtype);
    ClassTable fed = drawn_table(device, dtype);
    step_rows(table, {.size = classes}, Tensor(), sgd_step());
    step_rows(fed, {.size = classes}, Tensor::zeros(device, {classes, columns}, compute_dtype(dtype)), sgd_step());
    CHECK(state_of(table) == state_of(fed));
    CHECK(state_of(table) != state_of(drawn_table(device, dtype)));
  }
}

TEST_CASE("However a step is cut into tiles, ranks and indices, rows come out the same to the bit") {
  Device device = make_device();
  for (const DType dtype : weight_types) {
    ClassTable whole = drawn_table(device, dtype, classes, 0, true);
    const std::vector<double> before = state_of(whole);
    step_rows(whole, {.size = classes}, products_of(device, dtype, 0, classes), sgd_step());
    const std::vector<double> expected = state_of(whole);
    CHECK(expected != before);

    ClassTable tiles = drawn_table(device, dtype, classes, 0, true);
    for (const IndexRange tile : {IndexRange{7, 2}, IndexRange{0, 1}, IndexRange{1, 6}})
      step_rows(tiles, {tile.begin, tile.size}, products_of(device, dtype, tile.begin, tile.end()), sgd_step());
    CHECK(state_of(tiles) == expected);

    ClassTable chosen = drawn_table(device, dtype, classes, 0, true);
    const Tensor all = products_of(device, dtype, 0, classes);
    const auto step_some = [&](const std::vector<std::int64_t>& index) {
      const Tensor rows = integers(device, index);
      Tensor products = Tensor::empty(device, {rows.numel(), columns}, all.dtype());
      device.backend().rows().gather(all, rows, products);
      step_rows(chosen, {.size = rows.numel(), .index = rows}, products, sgd_step());
    };
    step_some({0, 2, 3, 8});
    const Loaded untouched = load(chosen, {.size = 5, .index = integers(device, {1, 4, 5, 6, 7})});
    const Loaded original = load(drawn_table(device, dtype), {.size = 5, .index = integers(device, {1, 4, 5, 6, 7})});
    CHECK(untouched.rows.to_doubles() == original.rows.to_doubles());
    CHECK(chosen.momentum.rows(4, 8).to_doubles() == std::vector<double>(4 * columns, 0));
    step_some({1, 4, 5, 6, 7});
    CHECK(state_of(chosen) == expected);

    for (const IndexRange shard : {IndexRange{0, 4}, IndexRange{4, 5}}) {
      ClassTable part = drawn_table(device, dtype, shard.size, shard.begin, true);
      step_rows(part, {.size = shard.size}, products_of(device, dtype, shard.begin, shard.end()),
                sgd_step(3, shard.begin));
      CHECK(load(part, {.size = shard.size}).rows.to_doubles() ==
            load(whole, {shard.begin, shard.size}).rows.to_doubles());
      CHECK(part.momentum.to_doubles() == whole.momentum.rows(shard.begin, shard.end()).to_doubles());
    }
  }
}

TEST_CASE("Steps of narrow rows are right on average over their draws, and draw anew each step") {
  Device device = make_device();
  constexpr std::uint32_t draws = 400;
  for (const DType dtype : {DType::bf16, DType::f16, DType::i8}) {
    const ClassTable start = drawn_table(device, dtype);
    // The same step in f32.
    ClassTable exact{.weight = load(start, {.size = classes}).rows,
                     .momentum = Tensor::zeros(device, {classes, columns}, DType::f32)};
    const Tensor products = products_of(device, dtype, 0, classes);
    step_rows(exact, {.size = classes}, products, sgd_step());
    const std::vector<double> expected = state_of(exact);
    std::vector<double> mean(expected.size());
    std::vector<double> square(expected.size());
    std::vector<double> last;
    for (std::uint32_t draw = 0; draw < draws; ++draw) {
      ClassTable table = drawn_table(device, dtype);
      step_rows(table, {.size = classes}, products, sgd_step(draw));
      const std::vector<double> state = state_of(table);
      CHECK(state != last);
      for (std::size_t i = 0; i < state.size(); ++i) {
        mean[i] += state[i] / draws;
        square[i] += state[i] * state[i] / draws;
      }
      last = state;
    }
    // The mean of each element deviates by its deviation / sqrt(draws), so that the squares of the ratios have the mean
    // one and the deviation sqrt(2 / elements). A wrong rounding of one element in ten would show.
    double ratio = 0;
    int drawn = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const double variance = square[i] - mean[i] * mean[i];
      if (variance < 1e-3 * std::pow(expected[i] / 256, 2)) continue;  // almost always the same neighbour
      ratio += std::pow(mean[i] - expected[i], 2) / variance * draws;
      ++drawn;
    }
    CHECK(drawn > classes * columns);
    CHECK(ratio / drawn == close_to(1).epsilon(0.15));
  }
}

TEST_CASE("Squares of gradients add up to those of the stored gradient, and tiles change no bit") {
  Device device = make_device();
  for (const DType dtype : weight_types)
    for (const double bound : {0.0, 0.2}) {
      const ClassTable table = drawn_table(device, dtype);
      const Loaded loaded = load(table, {.size = classes});
      const Tensor products = products_of(device, dtype, 0, classes);
      Tensor gradient = products.clone();
      device.backend().normalization().l2_normalize_backward(loaded.rows, loaded.inverse_norm, products, gradient);
      if (bound > 0) device.backend().training().clamp(gradient, bound);
      double expected = 2;
      for (const double value : gradient.to_doubles()) expected += value * value;
      const ClassRowKernels& kernels = device.backend().class_rows();
      Tensor whole = Tensor::full(device, {1}, DType::f64, 2);
      kernels.add_squared_gradient(loaded.rows, loaded.inverse_norm, products, bound, whole);
      CHECK(whole.item() == close_to(expected).epsilon(1e-13));
      Tensor tiles = Tensor::full(device, {1}, DType::f64, 2);
      for (const IndexRange tile : {IndexRange{0, 1}, IndexRange{1, 5}, IndexRange{6, 3}})
        kernels.add_squared_gradient(loaded.rows.rows(tile.begin, tile.end()),
                                     loaded.inverse_norm.rows(tile.begin, tile.end()),
                                     products.rows(tile.begin, tile.end()), bound, tiles);
      CHECK(tiles.item() == whole.item());
    }
}

TEST_CASE("Plan counts the bytes of the rows that are selected, and no others") {
  // One byte per second, so that seconds are bytes; no kernel here is bound by its operations.
  Device device(make_plan_backend({.profile = {.flops_per_second = 1e30, .bytes_per_second = 1}}), 0, {});
  const auto bytes = [&device](const auto& work) {
    const double before = device.backend().seconds();
    work();
    return device.backend().seconds() - before;
  };
  constexpr double n = 3;
  const Tensor index = Tensor::empty(device, {3}, DType::i64);
  for (const bool is_indexed : {false, true}) {
    const ClassSelection selection{.begin = 2, .size = 3, .index = is_indexed ? index : Tensor()};
    const double of_index = is_indexed ? 8 * n : 0;
    const auto table = [&device](DType weight, bool has_square) {
      ClassTable t{.weight = Tensor::empty(device, {1000, columns}, weight),
                   .momentum = Tensor::empty(device, {1000, columns}, momentum_beside(weight))};
      if (weight == DType::i8) t.scale = Tensor::empty(device, {1000}, DType::f32);
      if (has_square) t.square = Tensor::empty(device, {1000, columns}, DType::f32);
      return t;
    };
    Tensor rows = Tensor::empty(device, {3, columns}, DType::f32);
    Tensor norms = Tensor::empty(device, {3}, DType::f32);
    Tensor none;
    const ClassRowKernels& kernels = device.backend().class_rows();
    const ClassTable narrow = table(DType::bf16, false);
    CHECK(bytes([&] { kernels.load(narrow, selection, epsilon, rows, norms); }) ==
          of_index + n * (2 * columns + 4 * columns + 4));
    CHECK(bytes([&] { kernels.load(narrow, selection, epsilon, none, norms); }) == of_index + n * (2 * columns + 4));
    CHECK(bytes([&] { kernels.load(table(DType::i8, false), selection, epsilon, rows, none); }) ==
          of_index + n * (columns + 4 + 4 * columns));
    ClassTable stepped = table(DType::bf16, false);
    const auto step = [&](const Tensor& products) {
      return bytes([&] { kernels.step(stepped, selection, rows, norms, products, sgd_step()); });
    };
    CHECK(step(rows) == of_index + n * (4 * columns + 4 * columns + 4 + 2 * columns + 2 * 2 * columns));
    CHECK(step(none) == of_index + n * (4 * columns + 2 * columns + 2 * 2 * columns));
    stepped = table(DType::i8, true);
    CHECK(step(rows) ==
          of_index + n * (4 * columns + 4 * columns + 4 + columns + 4 + 2 * 2 * columns + 2 * 4 * columns));
    Tensor sum = Tensor::empty(device, {1}, DType::f64);
    CHECK(bytes([&] { kernels.add_squared_gradient(rows, norms, rows, 0, sum); }) == n * (8 * columns + 4));
    CHECK(bytes([&] { kernels.fill(stepped, {}, 0, {}); }) == 1000 * (columns + 4));
    ClassTable lazy = table(DType::f32, false);
    lazy.taken = Tensor::empty(device, {1000}, DType::i32);
    CHECK(bytes([&] { kernels.catch_up(lazy, selection, {}); }) == of_index + n * (2 * 2 * 4 * columns + 2 * 4));
    CHECK(bytes([&] { kernels.step(lazy, selection, rows, norms, none, sgd_step()); }) ==
          of_index + n * (4 * columns + 4 * columns + 4 + 2 * 4 * columns));
  }
  const double before = device.backend().flops();
  ClassTable table{.weight = Tensor::empty(device, {8, columns}, DType::f32),
                   .momentum = Tensor::empty(device, {8, columns}, DType::f32)};
  const Tensor rows = Tensor::empty(device, {8, columns}, DType::f32);
  device.backend().class_rows().step(table, {.size = 8}, rows, Tensor::empty(device, {8}, DType::f32), rows,
                                     sgd_step());
  CHECK(device.backend().flops() - before == 11 * 8 * columns);
}

TEST_CASE("Selections and state that do not fit their table are refused") {
  Device device = make_device();
  ClassTable table = drawn_table(device, DType::f32);
  const auto load_error = [&](const ClassSelection& selection) {
    return message_of([&] {
      (void)load(table, selection);
      device.backend().synchronize();
    });
  };
  CHECK(load_error({.begin = 7, .size = 3}) == "class rows: expected rows of 9, got 3 from 7 on");
  CHECK(load_error({.size = 2, .index = integers(device, {3, 9})}) ==
        "class rows: expected rows of 9, got 9 in place 1");
  CHECK(load_error({.size = 2, .index = integers(device, {3, 3})}) == "no error");
  const Tensor products = products_of(device, DType::f32, 0, classes);
  const auto step_twice = [&] {
    step_rows(table, {.size = 2, .index = integers(device, {3, 3})}, products.rows(0, 2), sgd_step());
    device.backend().synchronize();
  };
  CHECK_THROWS_WITH_AS(step_twice(), "class rows: expected ascending rows of 9, got 3 in place 1", Error);
  CHECK_THROWS_WITH_AS(step_rows(table, {.size = 4}, products, sgd_step()),
                       "class rows: expected f32[4,300], got f32[9,300]", Error);
  table.momentum = Tensor::empty(device, {classes, columns}, DType::f64);
  CHECK_THROWS_WITH_AS(step_rows(table, {.size = classes}, products, sgd_step()),
                       "class rows: weight f32[9,300] with momentum f64[9,300] and square none", Error);
  table = drawn_table(device, DType::bf16);
  ClassStep adamw = sgd_step();
  adamw.update = AdamWStep{.learning_rate = 0.1};
  CHECK_THROWS_WITH_AS(step_rows(table, {.size = classes}, products, adamw),
                       "class rows: weight bf16[9,300] with momentum bf16[9,300] and square none", Error);
}

}  // namespace
}  // namespace heddle::test

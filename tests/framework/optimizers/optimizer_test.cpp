#include "framework/optimizers/optimizer.h"

#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include "framework/optimizers/learning_rate.h"
#include "tests/support/compare/close_to.h"
#include "tests/support/devices.h"

namespace heddle::test::optimizer_test {
namespace {

const std::vector<std::vector<double>> gradients{
    {0.1, -0.2, 0.3}, {-0.4, 0.5, 0.05}, {0.25, 0.0, -0.6}, {0.3, 0.1, 0.2}};

Tensor start(Device& device, DType dtype = DType::f64) {
  return tensor(device, {3}, {0.5, -1.25, 2.0}, dtype);
}

/// The weight after a step for each gradient.
std::vector<double> trained(const OptimizerConfig& config, DType dtype = DType::f64, bool is_norm_or_bias = false) {
  Device device = make_device();
  const Tensor weight = start(device, dtype);
  const auto optimizer = make_optimizer(config, {{"weight", weight, is_norm_or_bias}});
  for (std::size_t i = 0; i < gradients.size(); ++i)
    optimizer->step(static_cast<std::int64_t>(i), config.learning_rate, {tensor(device, {3}, gradients[i], dtype)});
  return weight.to_doubles();
}

bool is_near(const std::vector<double>& a, const std::vector<double>& b, double tolerance) {
  for (std::size_t i = 0; i < b.size(); ++i)
    if (!(std::abs(a.at(i) - b[i]) <= tolerance)) return false;
  return a.size() == b.size();
}

// Expected weights: PyTorch's torch.optim.SGD and AdamW in f64, same numbers.
TEST_CASE("sgd takes PyTorch's steps") {
  OptimizerConfig config{.learning_rate = 0.1, .weight_decay = 0.01, .momentum = 0};
  const std::vector<double> plain{0.47297800801050005, -1.28496748502125, 1.9970518970319999};
  CHECK(is_near(trained(config), plain, 1e-14));
  config.momentum = 0.9;
  CHECK(is_near(trained(config), {0.49195569466049999, -1.3154165651462502, 1.9594393706319999}, 1e-14));
  config.nesterov = true;
  CHECK(is_near(trained(config), {0.46568652604968697, -1.343803832355557, 1.9607787128264271}, 1e-14));
  CHECK(is_near(trained(config, DType::f32), {0.46568652604968697, -1.343803832355557, 1.9607787128264271}, 5e-7));
  config.nesterov = false;
  config.weight_decay = 0;
  CHECK(is_near(trained(config), {0.49651, -1.32672, 1.97728}, 1e-14));
}

TEST_CASE("adamw takes PyTorch's steps") {
  OptimizerConfig config{.type = OptimizerType::adamw, .learning_rate = 0.1};
  CHECK(is_near(trained(config), {0.4317474810044552, -1.2665550887932429, 1.857997563547489}, 1e-13));
  config = {.type = OptimizerType::adamw,
            .learning_rate = 0.02,
            .weight_decay = 0.1,
            .beta1 = 0.8,
            .beta2 = 0.95,
            .epsilon = 1e-6};
  const std::vector<double> expected{0.48131310172201291, -1.245102319924061, 1.9585075179520002};
  CHECK(is_near(trained(config), expected, 1e-13));
  CHECK(is_near(trained(config, DType::f32), expected, 1e-6));
  CHECK(is_near(trained(config, DType::bf16), expected, 2e-2));
}

TEST_CASE("Norms and biases decay only where asked") {
  OptimizerConfig config{.learning_rate = 0.1, .weight_decay = 0.01};
  OptimizerConfig without = config;
  without.weight_decay = 0;
  CHECK(trained(config, DType::f64, true) == trained(config));
  config.decay_norms_and_biases = false;
  CHECK(trained(config, DType::f64, true) == trained(without));
  CHECK(trained(config) != trained(without));
}

TEST_CASE("A weight without a gradient stays as it is, and so does its state") {
  Device device = make_device();
  const Tensor first = start(device);
  const Tensor second = start(device);
  const auto optimizer = make_optimizer({.learning_rate = 0.1}, {{"first", first}, {"second", second}});
  optimizer->step(0, 0.1, {Tensor(), tensor(device, {3}, gradients[0])});
  CHECK(first.to_doubles() == start(device).to_doubles());
  CHECK(second.to_doubles() != start(device).to_doubles());
  const std::vector<Optimizer::State> state = optimizer->state();
  CHECK(state.at(0).name == "velocity.first");
  CHECK(state.at(0).value.to_doubles() == std::vector<double>{0, 0, 0});
  CHECK(state.at(1).value.to_doubles() == gradients[0]);
}

TEST_CASE("State is charged to the optimizer from the start and named after its weight") {
  Device device = make_device();
  const Tensor weight = start(device, DType::f32);
  {
    const auto optimizer = make_optimizer({.type = OptimizerType::adamw}, {{"layer.weight", weight}});
    CHECK(device.meter().live()[Category::optimizer] == 24);
    CHECK(optimizer->state().at(0).name == "mean.layer.weight");
    CHECK(optimizer->state().at(1).name == "square.layer.weight");
  }
  const auto plain = make_optimizer({.momentum = 0}, {{"layer.weight", weight}});
  CHECK(device.meter().live()[Category::optimizer] == 0);
  CHECK(plain->state().empty());
}

TEST_CASE("Steps continue from copied state bit for bit") {
  for (const OptimizerType type : {OptimizerType::sgd, OptimizerType::adamw}) {
    Device device = make_device();
    const OptimizerConfig config{.type = type, .learning_rate = 0.1, .weight_decay = 0.01};
    const Tensor weight = start(device, DType::f32);
    const auto gradient = [&](std::size_t i) { return tensor(device, {3}, gradients[i], DType::f32); };
    const auto optimizer = make_optimizer(config, {{"weight", weight}});
    for (std::size_t i = 0; i < 2; ++i) optimizer->step(static_cast<std::int64_t>(i), 0.1, {gradient(i)});
    const Tensor again = weight.clone();
    const auto resumed = make_optimizer(config, {{"weight", again}});
    for (std::size_t i = 0; i < resumed->state().size(); ++i)
      resumed->state()[i].value.copy_from(optimizer->state()[i].value);
    for (std::size_t i = 2; i < 4; ++i) {
      optimizer->step(static_cast<std::int64_t>(i), 0.1, {gradient(i)});
      resumed->step(static_cast<std::int64_t>(i), 0.1, {gradient(i)});
    }
    CHECK(again.to_doubles() == weight.to_doubles());
  }
}

TEST_CASE("A step marks its weights as changed and refuses gradients that do not fit") {
  Device device = make_device();
  const Tensor weight = start(device);
  const auto optimizer = make_optimizer({}, {{"weight", weight}});
  const std::uint64_t before = weight.storage()->version();
  optimizer->step(0, 0.1, {tensor(device, {3}, gradients[0])});
  CHECK(weight.storage()->version() > before);
  CHECK_THROWS_WITH_AS(optimizer->step(1, 0.1, {}), "optimizer: expected 1 gradients, got 0", Error);
  CHECK_THROWS_WITH_AS(optimizer->step(1, 0.1, {tensor(device, {2}, {1, 2})}),
                       "optimizer: weight is f64[3], its gradient f64[2]", Error);
}

/// A bf16 weight of 3 x 700 elements after three steps, held in these rows, followed by its velocity.
std::vector<double> rounded(const std::vector<WeightRows>& rows, std::uint64_t seed = 1, double momentum = 0.9) {
  Device device = make_device();
  constexpr std::int64_t size = 2100;
  // The elements that a rank holds, in the order in which it holds them.
  const auto held = [&](const std::vector<double>& whole) {
    std::vector<double> values;
    for (const WeightRows& block : rows)
      for (std::int64_t r = 0; r < block.rows; ++r)
        for (std::int64_t c = 0; c < block.columns; ++c)
          values.push_back(whole[static_cast<std::size_t>(block.whole + r * block.stride + c)]);
    return tensor(device, {static_cast<std::int64_t>(values.size())}, values, DType::bf16);
  };
  const Tensor weight = held(normal_values(size, 1));
  const OptimizerConfig config{.learning_rate = 1e-3, .momentum = momentum};
  const auto optimizer = make_optimizer(config, {{"weight", weight, false, WeightRounding{{seed}, 5, rows}}});
  for (std::int64_t step = 0; step < 3; ++step)
    optimizer->step(step, 1e-3, {held(normal_values(size, static_cast<std::uint64_t>(2 + step)))});
  std::vector<double> values = weight.to_doubles();
  for (const Optimizer::State& state : optimizer->state()) {
    CHECK(state.value.dtype() == DType::bf16);
    for (const double value : state.value.to_doubles()) values.push_back(value);
  }
  return values;
}

TEST_CASE("A bf16 weight's step is rounded by each element's own draw, however its elements are held") {
  const std::vector<double> whole = rounded({{.rows = 1, .columns = 2100}});
  CHECK(whole == rounded({{.rows = 2, .columns = 1024, .stride = 1024},
                          {.held = 2048, .rows = 1, .columns = 52, .whole = 2048}}));
  CHECK(whole == rounded({{.rows = 3, .columns = 700, .stride = 700}}));
  CHECK(whole != rounded({{.rows = 1, .columns = 2100}}, 2));
  // The columns 233 .. 465 of a [3, 700], as a rank holds them.
  const std::vector<double> part = rounded({{.rows = 3, .columns = 233, .whole = 233, .stride = 700}});
  for (std::size_t row = 0; row < 6; ++row)  // the rows of the velocity follow those of the weight
    for (std::size_t column = 0; column < 233; ++column)
      CHECK(part[row * 233 + column] == whole[row * 700 + 233 + column]);
}

TEST_CASE("Steps too small for bf16 count on average") {
  Device device = make_device();
  constexpr std::int64_t size = 4096;
  const Tensor weight = Tensor::full(device, {size}, DType::bf16, 1);
  const Tensor gradient = Tensor::full(device, {size}, DType::bf16, 1);
  const std::vector<WeightRows> rows{{.rows = 4, .columns = 1024, .stride = 1024}};
  const OptimizerConfig config{.momentum = 0};
  const auto optimizer = make_optimizer(config, {{"weight", weight, false, WeightRounding{{3}, 0, rows}}});
  for (std::int64_t step = 0; step < 100; ++step) optimizer->step(step, 1e-4, {gradient});
  double sum = 0;
  for (const double value : weight.to_doubles()) sum += value;
  // After a hundred steps of 1e-4, in units of 2^-8; the mean of this many elements deviates by a hundredth of a unit.
  CHECK(std::abs(sum / size - 0.99) < 3e-4);
  CHECK(optimizer->state().empty());
}

TEST_CASE("Learning rates warm up and then follow their schedule") {
  LearningRateConfig config{.warm_up = 4};
  CHECK(learning_rate(config, 0.8, 0, 20) == close_to(0.2));
  CHECK(learning_rate(config, 0.8, 3, 20) == close_to(0.8));
  CHECK(learning_rate(config, 0.8, 19, 20) == close_to(0.8));
  config = {.type = LearningRateType::step, .milestones = {5, 10}, .factor = 0.1};
  CHECK(learning_rate(config, 0.8, 4, 20) == close_to(0.8));
  CHECK(learning_rate(config, 0.8, 5, 20) == close_to(0.08));
  CHECK(learning_rate(config, 0.8, 10, 20) == close_to(0.008));
  config = {.type = LearningRateType::polynomial, .warm_up = 2, .power = 2, .final_share = 0.1};
  CHECK(learning_rate(config, 1, 2, 12) == close_to(1));
  CHECK(learning_rate(config, 1, 7, 12) == close_to(0.1 + 0.9 * 0.25));
  config = {.type = LearningRateType::cosine, .warm_up = 2, .final_share = 0.2};
  CHECK(learning_rate(config, 1, 2, 12) == close_to(1));
  CHECK(learning_rate(config, 1, 7, 12) == close_to(0.2 + 0.8 * 0.5));
  CHECK(learning_rate(config, 1, 12, 12) == close_to(0.2));
}

}  // namespace
}  // namespace heddle::test::optimizer_test

// Averages of weights: the formula in f64, their types and bytes, and how they take the place of the weights.
#include "framework/optimizers/weight_averages.h"

#include <cmath>

#include <doctest/doctest.h>

#include "framework/ops/elementwise.h"
#include "tests/support/compare/close_to.h"
#include "tests/support/devices.h"

namespace heddle::test::weight_averages_test {

namespace {

void set(Tensor weight, const std::vector<double>& values) {
  weight.copy_from(tensor(weight.device(), weight.shape(), values, weight.dtype()));
}

std::vector<double> average_of(const WeightAverages& averages) {
  return averages.state().at(0).value.to_doubles();
}

}  // namespace

TEST_CASE("the decay of a step is the constant, or with warm_up at most (1 + step) / (10 + step)") {
  CHECK(ema_decay({.decay = 0.9}, 0) == 0.9);
  CHECK(ema_decay({.decay = 0.9, .warm_up = true}, 0) == 0.1);
  CHECK(ema_decay({.decay = 0.9, .warm_up = true}, 2) == 0.25);
  CHECK(ema_decay({.decay = 0.9, .warm_up = true}, 80) == 0.9);
  CHECK(ema_decay({.decay = 0.9, .warm_up = true}, 1000) == 0.9);
}

TEST_CASE("averages begin as the weights, and each step moves them to the weights by 1 - decay") {
  for (const bool warm_up : {false, true}) {
    const EmaConfig config{.decay = 0.8, .warm_up = warm_up};
    Device device = make_device();
    const std::int64_t count = (std::int64_t{1} << 18) + 3;  // more than are averaged at once
    std::vector<double> expected = normal_values(count, 1);
    const Tensor weight = tensor(device, {count}, expected);
    WeightAverages averages(config, {{"conv1.weight", weight}});
    CHECK(averages.state().at(0).name == "ema.conv1.weight");
    CHECK(averages.state().at(0).weight == "conv1.weight");
    CHECK(average_of(averages) == expected);
    for (std::int64_t step = 0; step < 4; ++step) {
      const std::vector<double> values = normal_values(count, 2 + static_cast<std::uint64_t>(step));
      set(weight, values);
      averages.update(step);
      const double decay = warm_up ? std::min(0.8, (1.0 + step) / (10.0 + step)) : 0.8;
      double error = 0;
      const std::vector<double> found = average_of(averages);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        expected[i] = decay * expected[i] + (1 - decay) * values[i];
        error = std::max(error, std::abs(found[i] - expected[i]));
      }
      CHECK(error <= 1e-14);
    }
    averages.restart();
    CHECK(average_of(averages) == weight.to_doubles());
  }
}

TEST_CASE("averages of weights that stand still keep their bits, and those of 16-bit weights see small changes") {
  Device device = make_device();
  const Tensor still = tensor(device, {100}, normal_values(100, 1), DType::f32);
  const Tensor half = tensor(device, {1}, {1}, DType::bf16);
  WeightAverages averages({.decay = 0.9999}, {{"still", still}, {"half", half}});
  const std::vector<double> before = still.to_doubles();
  set(half, {1 + 0x1p-7});  // the next number of bf16
  for (std::int64_t step = 0; step < 1000; ++step) averages.update(step);
  CHECK(average_of(averages) == before);
  const Tensor average = averages.state().at(1).value;
  CHECK(average.dtype() == DType::f32);
  // Each change, below 2^-20, is rounded to a multiple of 2^-23.
  CHECK(average.item() - 1 == close_to(0x1p-7 * (1 - std::pow(0.9999, 1000))).epsilon(0.05));
}

TEST_CASE("averages take the place of the weights until these are restored with the same bits") {
  for (const DType type : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    CAPTURE(name_of(type));
    Device device = make_device();
    const Tensor weight = tensor(device, {50}, normal_values(50, 1), type);
    WeightAverages averages({.decay = 0.5}, {{"weight", weight}});
    set(weight, normal_values(50, 2));
    averages.update(0);
    const std::vector<double> own = weight.to_doubles();
    const std::vector<double> average = average_of(averages);
    CHECK(own != average);
    const std::uint64_t version = weight.storage()->version();
    averages.use();
    CHECK(weight.to_doubles() == in_type(averages.state().at(0).value, type).to_doubles());
    CHECK(weight.storage()->version() > version);  // copies in other types are made anew
    averages.restore();
    CHECK(weight.to_doubles() == own);
    CHECK(weight.storage()->version() > version + 1);
    CHECK(average_of(averages) == average);
  }
}

TEST_CASE("averages are counted as optimizer state, and weights that they replace as workspace, on plan, too") {
  const auto bytes_of = [](const std::string& backend, DType type) {
    Device device = make_device(backend);
    const Tensor weight = Tensor::zeros(device, {1000}, type);
    WeightAverages averages({}, {{"weight", weight}});
    std::vector<MemoryUse> uses{device.meter().live()};
    averages.update(0);
    uses.push_back(device.meter().peak());
    averages.use();
    uses.push_back(device.meter().live());
    averages.restore();
    uses.push_back(device.meter().live());
    return uses;
  };
  for (const DType type : {DType::f64, DType::f32, DType::bf16}) {
    CAPTURE(name_of(type));
    const std::vector<MemoryUse> uses = bytes_of(tested_backend(), type);
    const std::vector<MemoryUse> plan = bytes_of("plan", type);
    for (std::size_t i = 0; i < uses.size(); ++i) CHECK(uses[i].bytes == plan[i].bytes);
    const auto in = [](const MemoryUse& use, Category category) {
      return use.bytes[static_cast<std::size_t>(category)];
    };
    CHECK(in(uses[0], Category::optimizer) == (type == DType::f64 ? 8000 : 4000));
    CHECK(in(uses[2], Category::workspace) == 1000 * static_cast<std::int64_t>(size_of(type)));
    CHECK(uses[3].bytes == uses[0].bytes);
  }
}

}  // namespace heddle::test::weight_averages_test

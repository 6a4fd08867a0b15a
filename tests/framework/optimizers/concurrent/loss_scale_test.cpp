// The dynamic loss scale of f16: its rules, and that an overflow on one rank counts on all ranks.
#include "framework/optimizers/loss_scale.h"

#include <atomic>
#include <cmath>

#include <doctest/doctest.h>

#include "framework/error.h"
#include "layers/modules/linear.h"
#include "layers/modules/normalization.h"
#include "tests/support/layouts.h"
#include "tests/support/message.h"
#include "tests/support/scratch.h"

namespace heddle::test::loss_scale_test {

namespace {

using test::Course;
using test::Layout;

/// Two linear layers, of which the second multiplies its gradient by its weights.
test::ModelPointer two_layers() {
  ModelSpec model({8, 8, 3});
  model.then("flatten", Flatten::spec());
  model.then("first", Linear::spec({.in = 192, .out = 16}));
  model.then("second", Linear::spec({.in = 16, .out = 6}));
  return std::make_shared<ModelSpec>(std::move(model));
}

Experiment experiment_of(double scale, OptimizerType optimizer = OptimizerType::sgd) {
  Experiment experiment = test::small_experiment(20, 16, 6, DType::f16);
  experiment.train.loss_scale = {.init_scale = scale};
  experiment.train.optimizer.type = optimizer;
  return experiment;
}

void multiply_weight(Trainer& trainer, const std::string& name, double factor) {
  for (const Parameter* parameter : trainer.parameters().all())
    if (parameter->name == name) {
      Tensor weight = parameter->value;
      weight.device().backend().elementwise().scale_add(factor, weight, 0, weight);
      weight.storage()->changed();
    }
}

}  // namespace

TEST_CASE("a loss scale halves at an overflow, doubles after its interval of good steps, and counts what it skips") {
  LossScale scale({.growth_interval = 3});
  CHECK(scale.scale() == 65536);
  scale.end_step(true);
  CHECK(scale.scale() == 32768);
  for (const bool overflowed : {false, false, true, false, false}) scale.end_step(overflowed);
  CHECK(scale.scale() == 16384);
  scale.end_step(false);
  CHECK(scale.scale() == 32768);
  CHECK(scale.skipped_steps() == 2);
  CHECK(LossScale({}).scale() == 65536);
  LossScale usual({});
  for (int i = 0; i < 1999; ++i) usual.end_step(false);
  CHECK(usual.scale() == 65536);
  usual.end_step(false);
  CHECK(usual.scale() == 131072);
}

TEST_CASE("a loss scale resumes from its text, and no other text is accepted") {
  LossScale scale({.init_scale = 3, .backoff_factor = 0.7, .growth_interval = 4});
  for (const bool overflowed : {true, false, false}) scale.end_step(overflowed);
  LossScale again({.growth_interval = 4});
  again.set(scale.to_text());
  CHECK(again.scale() == scale.scale());
  CHECK(again.to_text() == scale.to_text());
  CHECK(LossScale({}).to_text() == "65536 0 0");
  for (const char* const wrong : {"", "65536", "65536 0", "65536 0 0 0", "-1 0 0", "nan 0 0", "1 -1 0", "1 0 x"})
    CHECK(message_of<InputError>([&] { again.set(wrong); }) ==
          fmt::format("expected a loss scale and two counts of steps, got \"{}\"", wrong));
}

TEST_CASE("gradients that overflow at every scale end the training") {
  LossScale scale({.init_scale = 1});
  for (int i = 0; i < 13; ++i) scale.end_step(true);
  CHECK_THROWS_WITH_AS(
      scale.end_step(true),
      "gradients overflow however small the loss scale is, 6.103515625e-05 now: the training has diverged", RankFailed);
}

TEST_CASE("the loss scale does not change gradients and weights, except values that f16 would flush") {
  const test::Outcome small = test::train(experiment_of(64), two_layers(), {}, 3);
  const test::Outcome large = test::train(experiment_of(1024), two_layers(), {}, 3);
  CHECK(test::max_difference(large.gradients, small.gradients).error < 0x1p-10);
  CHECK(test::max_difference(large.weights, small.weights).error < 0x1p-10);
  CHECK(large.weights != test::train(experiment_of(64), two_layers(), {}, 0).weights);
}

TEST_CASE("an overflow on one rank is skipped by all: no weight, velocity or class changes, and adamw counts no step") {
  for (const OptimizerType optimizer : {OptimizerType::sgd, OptimizerType::adamw})
    for (const bool by_stage : {true, false}) {
      // Backward through the second layer overflows; its own gradient does not. (Cosines' gradient would shrink as
      // embeddings grow.)
      Layout layout = by_stage ? Layout{Mesh(1, 3), 2} : Layout{Mesh(2), 2};
      layout.over = test::last_stage;
      std::atomic<int> overflowed = 0;
      const auto skipping = [&](Trainer& trainer) {
        multiply_weight(trainer, "second.weight", 3e4);
        (void)trainer.compute_gradients(0);
        for (const Parameter* parameter : trainer.parameters().all()) {
          bool is_finite = true;
          for (const double value : parameter->gradient->gradient().to_doubles()) is_finite &= std::isfinite(value);
          CHECK(is_finite == (parameter->name.starts_with("second")));
          if (!is_finite) ++overflowed;
        }
        const StepUpdate update = trainer.apply_gradients(0);
        CHECK(update.is_skipped);
        CHECK(update.loss_scale == 65536);
        CHECK(trainer.parameters().loss_scale()->scale() == 32768);
        CHECK(trainer.parameters().optimizer_steps(1) == 0);
        multiply_weight(trainer, "second.weight", 1 / 3e4);
      };
      const auto scaling = [](Trainer& trainer) {
        multiply_weight(trainer, "second.weight", 3e4);
        multiply_weight(trainer, "second.weight", 1 / 3e4);
      };
      Experiment experiment = experiment_of(65536, optimizer);
      experiment.head.normalize = false;
      experiment.head.margin = {.scale = 1};
      const test::Outcome skipped = test::train(experiment, two_layers(), layout, Course{.end = 0, .before = skipping});
      const test::Outcome before = test::train(experiment, two_layers(), layout, Course{.end = 0, .before = scaling});
      CHECK(overflowed == (by_stage ? 2 : 4));  // the first layer's weight and bias: of one rank, or of two
      CHECK(skipped.state == before.state);
    }
}

TEST_CASE("a skipped step does not change running statistics") {
  ModelSpec described({8, 8, 3});
  described.then("flatten", Flatten::spec());
  described.then("first", Linear::spec({.in = 192, .out = 16}));
  described.then("norm", BatchNorm::spec({.channels = 16}));
  described.then("second", Linear::spec({.in = 16, .out = 6}));
  const auto model = std::make_shared<ModelSpec>(std::move(described));
  Experiment experiment = experiment_of(65536);
  experiment.head.normalize = false;
  experiment.head.margin = {.scale = 1};
  const auto trained = [&](double factor) {
    return test::train(experiment, model, {}, Course{.end = 0, .before = [&](Trainer& trainer) {
                                                       multiply_weight(trainer, "second.weight", factor);
                                                       (void)trainer.compute_gradients(0);
                                                       CHECK(trainer.apply_gradients(0).is_skipped == (factor > 1));
                                                       multiply_weight(trainer, "second.weight", 1 / factor);
                                                     }});
  };
  const auto statistics = [](const test::Outcome& outcome) {
    std::vector<std::vector<double>> all;
    for (const auto& [name, values] : outcome.state)
      if (name.find("running") != std::string::npos) all.push_back(values);
    REQUIRE(all.size() == 2);
    return all;
  };
  const auto skipped = statistics(trained(3e4));
  CHECK(skipped == statistics(test::train(experiment, model, {}, 0)));
  CHECK(skipped != statistics(trained(1)));
}

TEST_CASE("layouts skip the same steps as one rank") {
  for (const Layout& layout : {Layout{Mesh(2), 2}, Layout{Mesh(1, 2), 4}, Layout{Mesh(1, 1, 2), 4}}) {
    const auto skipped_in = [](const Layout& where) {
      std::int64_t steps = 0;
      const auto count = [&](Trainer& trainer) {
        if (trainer.rank().index == 0) steps = trainer.parameters().loss_scale()->skipped_steps();
      };
      (void)test::train(experiment_of(1 << 20), two_layers(), where, Course{.end = 12, .after = count});
      return steps;
    };
    const std::int64_t serial = skipped_in(test::reference_of(layout));
    CHECK(serial > 2);
    CHECK(serial < 12);
    CHECK(skipped_in(layout) == serial);
  }
}

}  // namespace heddle::test::loss_scale_test

// Trainings in which some parameters are frozen, learn at another rate or are not clipped.
#include <doctest/doctest.h>

#include "framework/description/wildcard.h"
#include "tests/experiments/training/concurrent/checkpoint_ways.h"
#include "tests/support/compare/close_to.h"
#include "tests/support/devices.h"
#include "tests/support/message.h"
#include "tests/support/scratch.h"

namespace heddle::test::frozen_test {

using namespace checkpoint_ways;

namespace {

test::ModelPointer frozen(const Way& way, const std::vector<std::string>& patterns) {
  ModelSpec model = *network(way);
  model.freeze(patterns);
  return std::make_shared<ModelSpec>(std::move(model));
}

}  // namespace

TEST_CASE("frozen parameters keep their bits and have no state, and every layout trains the others alike" *
          doctest::test_suite(test::long_under_sanitizers)) {
  for (const std::vector<std::string>& patterns :
       {std::vector<std::string>{"conv1.*", "bn1.*", "prelu1.*"}, {"*"}, {"conv2.weight", "bn*"}, {"fc.*"}})
    for (const Way& way : ways()) {
      CAPTURE(patterns.front());
      CAPTURE(to_string(way.layout.mesh));
      Experiment experiment = experiment_of(way, OptimizerType::sgd, DType::f64);
      experiment.train.clip.norm = 0.5;
      const test::ModelPointer model = frozen(way, patterns);
      test::check_against_reference(experiment, model, way.layout);
      const test::Outcome drawn = test::train(experiment, model, way.layout, test::Course{});
      const test::Outcome trained = test::train(experiment, model, way.layout, 2);
      const std::vector<std::string> names = model->parameter_names();
      for (const std::string& name : names) {
        CAPTURE(name);
        const bool is_frozen = matches_any(patterns, name);
        CHECK((trained.weights.at(name) == drawn.weights.at(name)) == is_frozen);
        CHECK(trained.state.contains("velocity." + name) == !is_frozen);
      }
    }
}

TEST_CASE("a frozen run resumes on every layout") {
  const std::vector<std::string> patterns{"conv1.*", "bn1.*", "prelu1.*"};
  const Way saver{{Mesh(2), 2}};
  const Scratch scratch;
  const CheckpointFolder folder(scratch / "");
  const test::Outcome saved =
      test::train(experiment_of(saver), frozen(saver, patterns), saver.layout, saving(folder, 2));
  for (const Way& way : ways()) {
    CAPTURE(to_string(way.layout.mesh));
    CHECK(test::train(experiment_of(way), frozen(way, patterns), way.layout, resuming(folder, 2, 2)).state ==
          saved.state);
  }
}

TEST_CASE("a factor multiplies the learning rate of what it matches, on every layout" *
          doctest::test_suite(test::long_under_sanitizers)) {
  for (const OptimizerType optimizer : {OptimizerType::sgd, OptimizerType::adamw})
    for (const Way& way : ways()) {
      CAPTURE(to_string(way.layout.mesh));
      Experiment experiment = experiment_of(way, optimizer, DType::f64);
      experiment.train.lr_factors = {{"*", 0.5}, {"head.*", 3}, {"conv*", 0.25}};
      test::check_against_reference(experiment, network(way), way.layout);
      const test::Outcome begun = test::train(experiment, network(way), way.layout, test::Course{});
      const test::Outcome with = test::train(experiment, network(way), way.layout, 1);
      experiment.train.lr_factors.clear();
      const test::Outcome without = test::train(experiment, network(way), way.layout, 1);
      for (const auto& [name, factor] :
           std::map<std::string, double>{{"fc.weight", 0.5}, {"head.weight", 3}, {"conv1.weight", 0.25}})
        for (std::size_t i = 0; i < 10; ++i) {
          CAPTURE(name);
          const double start = begun.weights.at(name)[i];
          CHECK(with.weights.at(name)[i] - start ==
                close_to(factor * (without.weights.at(name)[i] - start)).epsilon(1e-6));
        }
    }
}

TEST_CASE("gradients of the head may be left out of the norm, and are then not scaled, on every layout") {
  for (const Way& way : several_ways()) {
    CAPTURE(to_string(way.layout.mesh));
    Experiment experiment = experiment_of(way, OptimizerType::sgd, DType::f64);
    const test::Outcome unclipped = test::train(experiment, network(way), way.layout, 1);
    experiment.train.clip.norm = 1e-3;
    const test::Outcome clipped = test::train(experiment, network(way), way.layout, 1);
    experiment.train.clip.head = false;
    const test::Outcome without = test::train(experiment, network(way), way.layout, 1);
    CHECK(without.weights.at("head.weight") == unclipped.weights.at("head.weight"));
    CHECK(clipped.weights.at("head.weight") != unclipped.weights.at("head.weight"));
    CHECK(without.weights.at("fc.weight") != unclipped.weights.at("fc.weight"));
    CHECK(without.weights.at("fc.weight") != clipped.weights.at("fc.weight"));
    test::check_against_reference(experiment, network(way), way.layout);
  }
}

TEST_CASE("a pattern that matches nothing is an error that shows a similar name") {
  ModelSpec model = *network({});
  CHECK(message_of<InputError>([&] {
          model.freeze({"conv1.*", "conv1.wieght"});
        }) == R"(no parameter's name matches "conv1.wieght": did you mean "conv1.weight"?)");
  CHECK(message_of<InputError>([&] { model.freeze({"a pattern of something else"}); }) ==
        R"(no parameter's name matches "a pattern of something else": the first one is "conv1.weight")");
  CHECK(message_of<InputError>([&] { model.freeze({"head.weight"}); }).starts_with("no parameter's name matches"));
}

}  // namespace heddle::test::frozen_test

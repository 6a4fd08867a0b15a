// Runs that are resumed with a new head.
#include <algorithm>
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include "tests/experiments/training/concurrent/checkpoint_ways.h"
#include "tests/support/compare/close_to.h"
#include "tests/support/scratch.h"

namespace heddle::test::fresh_head_test {

using namespace checkpoint_ways;

TEST_CASE("a fresh head is drawn as a new run draws it, without momentum, and the backbone keeps its bits") {
  const Scratch scratch;
  const CheckpointFolder folder(scratch / "");
  const Way saver{{Mesh(2), 2}};
  const Way loader{{Mesh(3), 2}, {}, ShardedState::optimizer};
  const test::Outcome saved = run(saver, experiment_of(saver), saving(folder, 2));
  for (const std::int64_t classes : {11, 25}) {
    Experiment experiment = experiment_of(loader);
    experiment.head.classes = classes;
    const test::Outcome begun = run(loader, experiment, {.end = 0});
    const test::Outcome loaded = run(loader, experiment, resuming(folder, 2, 2, nullptr, SavedHead::fresh));
    for (const auto& [name, values] : loaded.state) {
      CAPTURE(name);
      const bool of_head = name.find("head.") != std::string::npos;
      CHECK(values == (of_head ? begun : saved).state.at(name));
    }
    CHECK(loaded.state.at("velocity.head.weight") == std::vector<double>(static_cast<std::size_t>(classes * 6)));
    CHECK(loaded.state.at("velocity.fc.weight") != begun.state.at("velocity.fc.weight"));
  }
}

TEST_CASE("adamw counts a fresh head's steps from its own first one, also when that run is resumed") {
  for (const HeadParallel parallel : {HeadParallel::sharded, HeadParallel::replicated}) {
    const Scratch scratch;
    const CheckpointFolder folder(scratch / "");
    const Way way{{Mesh(2), 2}, {}, ShardedState::none, parallel};
    Experiment experiment = experiment_of(way, OptimizerType::adamw, DType::f64);
    experiment.train.optimizer.weight_decay = 0;
    const auto fresh = [&](std::int64_t end) {
      (void)run(way, experiment, saving(folder, 2));
      return run(way, experiment, resuming(folder, 2, end, nullptr, SavedHead::fresh)).state.at("head.weight");
    };
    const std::vector<double> drawn = fresh(2);
    const std::vector<double> stepped = fresh(3);
    // The first step of Adam has the length of the learning rate in every element.
    double longest = 0;
    for (std::size_t i = 0; i < drawn.size(); ++i) longest = std::max(longest, std::abs(stepped[i] - drawn[i]));
    CHECK(longest == close_to(experiment.train.optimizer.learning_rate).epsilon(1e-4));

    const std::vector<double> whole = fresh(4);
    Course saving_fresh = resuming(folder, 2, 3, nullptr, SavedHead::fresh);
    saving_fresh.after = [&](Trainer& trainer) { folder.save(trainer, 3); };
    (void)run(way, experiment, saving(folder, 2));
    (void)run(way, experiment, saving_fresh);
    CHECK(run(way, experiment, resuming(folder, 3, 4)).state.at("head.weight") == whole);
    // A run that holds the classes in the other way counts the same steps.
    Way other = way;
    other.head = parallel == HeadParallel::sharded ? HeadParallel::replicated : HeadParallel::sharded;
    Experiment elsewhere = experiment;
    elsewhere.head.parallel = other.head;
    const std::vector<double> rest = run(other, elsewhere, resuming(folder, 3, 4)).state.at("head.weight");
    double apart = 0;
    for (std::size_t i = 0; i < rest.size(); ++i) apart = std::max(apart, std::abs(rest[i] - whole[i]));
    CHECK(apart < 1e-9);
  }
}

}  // namespace heddle::test::fresh_head_test

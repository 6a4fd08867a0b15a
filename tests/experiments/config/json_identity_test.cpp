// Checkpoints of the program write down their experiment as JSON.
#include "experiments/config/json_identity.h"

#include <array>

#include <doctest/doctest.h>

#include "experiments/config/study.h"

namespace heddle::json_identity_test {

TEST_CASE("the experiment of a checkpoint is JSON that reads back, and its first change is named") {
  const ExperimentIdentity identity = json_identity();
  CHECK(identity.form == "json");
  Experiment experiment;
  experiment.name = "small";
  experiment.head.classes = 200;
  experiment.train.steps = 7;
  const std::string text = identity.text(experiment);
  const Study<Experiment> read_back = read_study_text<Experiment>(text, "x.json");
  CHECK(identity.text(read_back.variants[0].root) == text);

  experiment.train.steps = 8;
  const std::optional<Change> change = identity.first_change(text, identity.text(experiment), {});
  REQUIRE(change);
  CHECK(change->key == "train.steps");
  CHECK(change->before == "7");
  CHECK(change->now == "8");
  constexpr std::array<std::string_view, 1> train{"train"};
  CHECK_FALSE(identity.first_change(text, identity.text(experiment), train));
}

TEST_CASE("plain text and JSON name the same first change of an experiment") {
  Experiment before;
  before.name = "small";
  Experiment now = before;
  now.train.optimizer.learning_rate = 0.25;
  const auto change = [&](const ExperimentIdentity& identity) {
    return identity.first_change(identity.text(before), identity.text(now), {});
  };
  const std::optional<Change> plain = change({});
  const std::optional<Change> json = change(json_identity());
  REQUIRE(plain);
  REQUIRE(json);
  CHECK(plain->key == json->key);
  CHECK(plain->before == json->before);
  CHECK(plain->now == json->now);
}

}  // namespace heddle::json_identity_test

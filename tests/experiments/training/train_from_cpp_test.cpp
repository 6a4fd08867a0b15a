// Training from C++: an experiment as a struct, an observer, and no file, reader or program.
#include <filesystem>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "experiments/training/experiment_checks.h"
#include "experiments/training/run.h"
#include "tests/support/message.h"
#include "tests/support/scratch.h"

namespace heddle::test {

namespace {

/// Ten drawn people, a small multilayer perceptron on two ranks that share the batch, and a cosine-margin head whose
/// classes the ranks share.
Experiment two_ranks() {
  Experiment experiment;
  experiment.name = "two_ranks";
  experiment.mesh.dp = 2;
  experiment.threads = 1;
  experiment.data.synthetic_identities = {
      .identities = 10, .image = {3, 16, 16}, .train_per_identity = 8, .test_per_identity = 4};
  experiment.model.type = ModelType::mlp;
  experiment.model.hidden = {32};
  experiment.model.embedding = 16;
  experiment.head.classes = 10;
  experiment.head.margin.combined.m3 = 0.1;
  experiment.train.batch = 20;
  experiment.train.steps = 12;
  experiment.train.optimizer.learning_rate = 0.05;
  experiment.evaluate = true;
  return experiment;
}

/// Collects what a run reports.
class Diary final : public RunObserver {
 public:
  EarlierRun on_begin(std::int64_t first_step) override {
    first = first_step;
    return {};
  }
  void on_step(const StepRecord& record) override { losses.push_back(record.loss.value()); }
  void on_status(const std::string& text) override { statuses.push_back(text); }
  void on_note(const std::string& text) override { notes.push_back(text); }

  std::int64_t first = -1;
  std::vector<double> losses;
  std::vector<std::string> statuses;
  std::vector<std::string> notes;
};

TEST_CASE("an experiment built in C++ trains on two ranks, and its observer sees every step") {
  Diary diary;
  const VariantResult result = run_variant(two_ranks(), "base", {.observer = &diary});
  CHECK(result.status == VariantResult::Status::ok);
  CHECK(result.ranks.size() == 2);
  CHECK(diary.first == 0);
  REQUIRE(diary.losses.size() == 12);
  CHECK(diary.losses.back() < diary.losses.front());
  CHECK(diary.losses.back() == result.steps.last_loss());
  CHECK(diary.statuses == std::vector<std::string>{"evaluating"});
  CHECK(diary.notes.empty());
  REQUIRE(result.evaluation);
  CHECK(result.evaluation->rank1 > 0.1);  // what guessing gives
}

TEST_CASE("a run from C++ refuses fields that contradict each other, and names the key") {
  const auto error_of = [](void (*change)(Experiment&)) {
    Experiment experiment = two_ranks();
    change(experiment);
    return message_of<KeyError>([&] { (void)run_variant(experiment, "base"); });
  };
  CHECK(error_of([](Experiment& e) {
          e.clock = ClockType::virtual_time;
          e.threads = 4;
        }) == "threads: expected 1, got 4: a virtual clock sees the CPU time of a rank's own thread only");
  CHECK(error_of([](Experiment& e) { e.tf32 = true; }) ==
        "tf32: expected false with device cpu: TF32 is the arithmetic of a GPU's tensor cores");
  CHECK(error_of([](Experiment& e) { e.head.classes = 9; }) ==
        "head.classes: expected at least the data's 10 people, got 9");
  CHECK(error_of([](Experiment& e) { e.mesh.pp = 9; }).starts_with("model: expected at most "));
}

TEST_CASE(
    "a run from C++ resumes from its checkpoint with the same losses, and refuses that of a different experiment") {
  const Experiment experiment = two_ranks();
  Diary whole;
  (void)run_variant(experiment, "base", {.observer = &whole});

  const Scratch folder;
  Experiment half = experiment;
  half.train.steps = 6;
  (void)run_variant(half, "base", {.checkpoints = folder / "checkpoint"});
  Diary rest;
  (void)run_variant(experiment, "base", {.checkpoints = folder / "checkpoint", .resume = true, .observer = &rest});
  CHECK(rest.first == 6);
  CHECK(rest.losses == std::vector<double>(whole.losses.begin() + 6, whole.losses.end()));
  CHECK(rest.statuses == std::vector<std::string>{"saving", "evaluating"});

  Experiment other = experiment;
  other.train.optimizer.momentum = 0.5;
  other.train.steps = 18;
  const std::string message = message_of<InputError>(
      [&] { (void)run_variant(other, "base", {.checkpoints = folder / "checkpoint", .resume = true}); });
  CHECK(message == (folder / "checkpoint/step-000012").string() +
                       ": was saved by a different experiment (train.optimizer.momentum was 0.9, is 0.5): only the "
                       "number of steps, what is saved, the evaluation and the layout over ranks may change");
}

TEST_CASE("a checkpoint of an earlier version resumes, whose experiments had fewer keys") {
  const Experiment experiment = two_ranks();
  const Scratch folder;
  Experiment half = experiment;
  half.train.steps = 6;
  // The earlier version writes the learning rate alone; this one writes the momentum, too.
  const ExperimentIdentity earlier{
      .form = "test", .text = [](const Experiment& e) { return fmt::format("{}", e.train.optimizer.learning_rate); }};
  const ExperimentIdentity now{.form = "test",
                               .text =
                                   [](const Experiment& e) {
                                     return fmt::format("{} {}", e.train.optimizer.learning_rate,
                                                        e.train.optimizer.momentum);
                                   },
                               .read = [&](std::string_view) { return std::optional(experiment); }};
  (void)run_variant(half, "base", {.checkpoints = folder / "checkpoint", .identity = earlier});
  const auto resumed = [&](const ExperimentIdentity& identity) {
    return message_of<InputError>([&] {
      (void)run_variant(experiment, "base",
                        {.checkpoints = folder / "checkpoint", .identity = identity, .resume = true});
    });
  };
  CHECK(resumed({.form = "test", .text = now.text}).find("was saved by a different experiment") != std::string::npos);
  CHECK(resumed(now) == "no error");
}

}  // namespace

}  // namespace heddle::test

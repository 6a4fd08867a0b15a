// Runs that are asked to end in the middle of the training.
#include <array>
#include <csignal>
#include <filesystem>
#include <vector>

#include <doctest/doctest.h>

#include "experiments/training/checkpoints/find_checkpoint.h"
#include "experiments/training/run.h"
#include "tests/support/mlp_experiment.h"
#include "tests/support/processes/local_job.h"
#include "tests/support/results/losses.h"
#include "tests/support/scratch.h"

namespace heddle::test {

namespace {

constexpr std::int64_t all_steps = 6;

/// Asks for the end while step `at` is reported, which all ranks notice in the step behind it.
struct Asking : RunObserver {
  Asking(Interruption& asked, std::int64_t step) : interruption(asked), at(step) {}
  void on_step(const StepRecord& record) override {
    was_heeded = was_heeded || interruption.is_heeded;
    if (record.step == at) interruption.signal = SIGTERM;
  }
  Interruption& interruption;
  std::int64_t at;
  bool was_heeded = false;
};

}  // namespace

TEST_CASE("an interrupted run ends after a step with a checkpoint, and resumes to the same bits") {
  for (const MeshConfig& mesh :
       {MeshConfig{}, MeshConfig{.dp = 2}, MeshConfig{.pp = 2}, MeshConfig{.dp = 2, .tp = 2}}) {
    CAPTURE(mesh.dp);
    CAPTURE(mesh.pp);
    const Scratch folder;
    const Experiment experiment = mlp_experiment(mesh, all_steps);
    const std::vector<double> whole = losses_in(run_variant(experiment, "small"));
    Interruption interruption;
    Asking asking(interruption, 1);
    RunSettings settings{.checkpoints = folder / "checkpoints", .interruption = &interruption, .observer = &asking};
    const VariantResult stopped = run_variant(experiment, "small", settings);
    CHECK(stopped.status == VariantResult::Status::interrupted);
    CHECK(stopped.interrupted_by == SIGTERM);
    CHECK(stopped.error == "by SIGTERM");
    CHECK(asking.was_heeded);
    CHECK(!interruption.is_heeded);
    // Rank 0 reports step 1 before it computes step 2.
    CHECK(losses_in(stopped) == std::vector(whole.begin(), whole.begin() + 3));
    CHECK(latest_in(folder / "checkpoints") == 3);

    interruption.signal = 0;
    settings.resume = true;
    settings.observer = nullptr;
    const VariantResult rest = run_variant(experiment, "small", settings);
    CHECK(rest.status == VariantResult::Status::ok);
    CHECK(losses_in(rest) == std::vector(whole.begin() + 3, whole.end()));
  }
}

TEST_CASE("all processes of a job end after the same step when one of them is interrupted") {
  for (const Connection connection : {Connection::memory, Connection::sockets}) {
    const Scratch folder;
    Experiment experiment = mlp_experiment({.dp = 2}, all_steps);
    experiment.transport = "processes";
    std::array<VariantResult, 2> results;
    in_processes(
        2,
        [&](Job& own) {
          Interruption interruption;
          if (own.rank() == 1) interruption.signal = SIGINT;
          results.at(static_cast<std::size_t>(own.rank())) = run_variant(
              experiment, "small", {.checkpoints = folder / "checkpoints", .job = &own, .interruption = &interruption});
        },
        connection);
    for (const VariantResult& stopped : results) {
      CHECK(stopped.status == VariantResult::Status::interrupted);
      CHECK(stopped.interrupted_by == SIGINT);
    }
    CHECK(latest_in(folder / "checkpoints") == 1);
  }
}

TEST_CASE("an interruption in the last step or without training ends a run, too") {
  Interruption interruption;
  Asking asking(interruption, 1);
  Experiment experiment = mlp_experiment({.dp = 2}, all_steps);
  experiment.train.forward_only = true;
  const VariantResult forward = run_variant(experiment, "small", {.interruption = &interruption, .observer = &asking});
  CHECK(forward.status == VariantResult::Status::interrupted);
  CHECK(forward.steps.size() == 3);

  const Scratch folder;
  interruption.signal = 0;
  asking.at = all_steps - 1;
  experiment.train.forward_only = false;
  experiment.evaluate = true;
  const VariantResult last = run_variant(
      experiment, "small", {.checkpoints = folder / "checkpoints", .interruption = &interruption, .observer = &asking});
  CHECK(last.status == VariantResult::Status::interrupted);
  CHECK(last.steps.size() == all_steps);
  CHECK(!last.evaluation);
  CHECK(latest_in(folder / "checkpoints") == all_steps);
}

TEST_CASE("a run with virtual time is not interrupted") {
  Interruption interruption;
  interruption.signal = SIGINT;
  Asking asking(interruption, 0);
  Experiment experiment = mlp_experiment({.dp = 2}, all_steps);
  experiment.clock = ClockType::virtual_time;
  const VariantResult result = run_variant(experiment, "small", {.interruption = &interruption, .observer = &asking});
  CHECK(result.status == VariantResult::Status::ok);
  CHECK(!asking.was_heeded);
}

}  // namespace heddle::test

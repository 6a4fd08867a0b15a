// Runs one experiment on all its ranks: trains, saves, evaluates, and returns the measurements. With this header a
// researcher trains from C++, without the program and its files; examples/own_program is a complete example:
//
//   Experiment experiment;  // every field has the default of `heddle help`
//   experiment.name = "two_ranks";
//   experiment.mesh.dp = 2;
//   experiment.data.synthetic_identities.identities = 10;
//   experiment.model.type = ModelType::mlp;
//   experiment.head.classes = 10;
//   experiment.train.steps = 20;
//
//   struct Losses : RunObserver {
//     void on_step(const StepRecord& record) override { fmt::print("{} {}\n", record.step, record.loss.value()); }
//   } losses;
//   const VariantResult result = run_variant(experiment, "base", {.observer = &losses});
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "experiments/training/checkpoints/checkpoint.h"
#include "experiments/training/experiment.h"
#include "experiments/training/interruption.h"
#include "experiments/training/measurements/result.h"
#include "experiments/training/prediction/stage_profile.h"
#include "experiments/training/run_observer.h"
#include "parallel/transports/processes/job.h"

namespace heddle {

struct RunSettings {
  /// Where checkpoints go; none are written if empty.
  std::filesystem::path checkpoints{};
  /// How checkpoints record the experiment.
  ExperimentIdentity identity{};
  /// Whether to resume from the newest checkpoint there, if there is one.
  bool resume = false;
  /// What a resumed run does with the head that was saved.
  SavedHead head = SavedHead::kept;
  /// The processes that hold the ranks, one each; null: this one has them all. Only rank 0's has a complete result.
  Job* job = nullptr;
  /// The data, if they are open already; null: they are opened as the experiment says.
  std::shared_ptr<const Dataset> dataset{};
  /// On plan: the ranks' bytes are counted even where they exceed the budget, and no step is predicted.
  bool asks_bytes_only = false;
  /// Costs of stages that earlier variants have measured, to which this run adds; null: all are measured anew.
  StageProfiles* profiles = nullptr;
  /// Number, cause and time of the restart after which this run resumes; its first step records it.
  std::optional<Restart> restart{};
  /// Null: the run cannot be interrupted. Runs with virtual time or on plan cannot be interrupted.
  Interruption* interruption = nullptr;
  /// Null: the run is not observed.
  RunObserver* observer = nullptr;
};

/// Running out of memory, a failing rank, an image that is found broken in training or evaluation, an interruption and
/// a last checkpoint that cannot be written are results (status and error say which); other wrong input is an
/// InputError.
VariantResult run_variant(const Experiment& experiment, const std::string& name, const RunSettings& settings = {});

}  // namespace heddle

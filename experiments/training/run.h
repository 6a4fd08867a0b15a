// Runs one variant of an experiment on all its ranks: train, save, evaluate, and report what was measured.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "experiments/training/experiment.h"
#include "experiments/training/result.h"
#include "experiments/training/stage_profile.h"
#include "parallel/transports/processes/processes.h"
#include "parallel/world.h"

namespace heddle {

struct RunSettings {
  /// Where checkpoints go; none are written if empty.
  std::filesystem::path checkpoints;
  /// Go on from the newest checkpoint there, if there is one.
  bool resume = false;
  /// Then without its head: a new one begins.
  bool fresh_head = false;
  /// The processes that hold the ranks, one each; null: this one has them all. Only rank 0's has a complete result.
  Processes* job = nullptr;
  /// Opened already; null: it is opened as the experiment says.
  std::shared_ptr<const Dataset> dataset{};
  /// On plan: what the ranks hold is told also where it is more than their budget, and no step is predicted.
  bool asks_bytes_only = false;
  /// Costs of stages that earlier variants had measured; null: all are measured anew.
  StageProfiles* profiles = nullptr;
  /// Called by one thread, between steps: the first step (gives the records of the steps before it, when resuming),
  /// each step, and what else goes on.
  std::function<std::vector<StepRecord>(std::int64_t first_step)> on_begin = [](std::int64_t) {
    return std::vector<StepRecord>{};
  };
  std::function<void(const StepRecord&)> on_step = [](const StepRecord&) {};
  std::function<void(const std::string&)> on_status = [](const std::string&) {};
  /// What the user should know before the first step.
  std::function<void(const std::string&)> on_note = [](const std::string&) {};
  /// Called by another thread than the ranks' when one has failed and another will not end: the program should.
  std::function<void(const std::string& why)> on_stall{};
};

/// The ranks of a run, as the experiment says.
WorldOptions world_options(const Experiment& experiment, Processes* job = nullptr);
/// Computing threads a rank: as the experiment says, or this machine's share.
int threads_of(const Experiment& experiment, Processes* job = nullptr);
/// Of its mesh.
int ranks_of(const Experiment& experiment);

/// Running out of memory and a failing rank are results (status and error say which); wrong input is an InputError.
VariantResult run_variant(const Experiment& experiment, const std::string& name, const RunSettings& settings);

}  // namespace heddle

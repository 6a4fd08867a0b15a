// Predicts the time of a pipeline's step: simulates its schedule, on the experiment's links, with costs of the
// stages that were measured apart from the run (stage_profile.h).
#pragma once

#include <span>
#include <vector>

#include "experiments/training/measurements/step_seconds.h"
#include "experiments/training/prediction/layer_messages.h"
#include "experiments/training/prediction/stage_profile.h"

namespace heddle {

struct PredictedStep {
  double seconds = 0;
  /// The peak of what each rank of the slowest pipeline keeps for the backward, in the unit of the profile's
  /// StageCosts::activations.
  std::vector<double> peak_memory{};
};
/// `layers`: of each application of the plan's model.
PredictedStep predicted_step(const Experiment& experiment, const RunPlan& plan, const StageProfile& profile,
                             std::span<const LayerMessages> layers);

/// The seconds of a step, as each measured step predicts them. On a wall clock the messages of layers are left out, and
/// so are the sums of gradients.
StepSeconds predicted_seconds(const Experiment& experiment, const RunPlan& plan, std::span<const StageProfile> steps);

/// The speed of a schedule over `naive` with as many ranks and the same recomputation, where all stages take equally
/// long and messages take no time. For gpipe on p ranks without recomputation it is m p / (m + p - 1).
double ideal_speedup(Schedule schedule, Recompute recompute);

/// For each rank, the most micro-batches whose values it keeps for backward at one time, where a rank's stages have
/// even shares of them (as in the schedule's formula), and the most whose inputs alone it keeps, to recompute the rest.
struct KeptMicroBatches {
  std::vector<double> values{};
  std::vector<double> inputs{};
};
KeptMicroBatches kept_micro_batches(Schedule schedule);

}  // namespace heddle

// The steps that are profiled, of an experiment that is like the run's but for what is not measured.
#pragma once

#include <memory>
#include <vector>

#include "experiments/training/planning/run_plan.h"
#include "experiments/training/prediction/span_samples.h"
#include "parallel/rank.h"

namespace heddle {

/// The experiment with a few steps, on links that take no time, by threads of this process, without checkpoints and
/// evaluation. It has more steps than are measured: the first step also builds the kernels and allocates what stays. On
/// plan all other steps are equal, and one is measured.
Experiment profiled_experiment(const Experiment& experiment);

/// One step of a rank.
struct ProfiledStep {
  SpanSamples spans;
  /// From the gradients to the new weights, without the heads' part: the seconds by the rank's clock, and those in
  /// which it computed.
  double update = 0;
  double computing_update = 0;
};
/// Runs the steps on all ranks, and returns those that are measured, by rank.
std::vector<std::vector<ProfiledStep>> run_profiled(const Experiment& profiled, const Dataset& dataset,
                                                    const std::shared_ptr<const RunPlan>& plan);

}  // namespace heddle

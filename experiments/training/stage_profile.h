// What the stages of an experiment's pipeline cost, measured apart from the run: one rank, alone, does what all ranks
// of the pipeline would do in a step, in the order of their schedule, by the same trainer, engine and kernels.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "experiments/training/run_plan.h"
#include "parallel/pipeline/simulation.h"

namespace heddle {

/// Seconds of a rank of speed 1, by the experiment's clock, in one step.
struct StageProfile {
  /// Of one micro-batch of one rank: of a step's first one, whose gradients need not be added to others, and of each
  /// later one. Stage 0's forward reads the images too. Optimizer and loss are 0 here.
  std::vector<StageCosts> first;
  std::vector<StageCosts> later;
  /// Of one micro-batch, and all classes.
  double loss = 0;
  /// Of one micro-batch: its part of the classes' gradient, which is computed once a step.
  double head_weight = 0;
  /// The same once more, for the norm that gradients are clipped by; 0 where they are not, or the head is replicated.
  double head_norm = 0;
  /// Of a step: everything from the gradients to the new weights but the head's, for all parameters.
  double optimizer = 0;
};

/// Steps that were measured already, by all that they depend on.
using StageProfiles = std::map<std::string, std::vector<StageProfile>>;

/// Steps of the plan's stages, with as many threads as each of the experiment's ranks has: those that `known` has, to
/// which each call adds a few more (but on plan, where all are alike). Measured before and after a run they tell of the
/// machine as it was then. Layers that are split over tp are measured whole.
const std::vector<StageProfile>& profile_stages(const Experiment& experiment, const Dataset& dataset,
                                                const RunPlan& plan, StageProfiles& known);

/// Of each application of the model, forward and backward of one micro-batch and its part of the weights' update: what
/// the cut `by time` weighs. The last one bears the head if that lies on its ranks alone.
std::vector<double> profile_applications(const Experiment& experiment, const Dataset& dataset,
                                         std::shared_ptr<const ModelDescription> model, StageProfiles& known);

}  // namespace heddle

// Measures the costs of the stages of an experiment's pipeline, before and after the run, with the same trainer, engine
// and kernels. On a wall clock one rank alone does the work of all ranks of the pipeline in a step, in the order of
// their schedule. On plan as many ranks as share layers over tp do. Heads whose classes are shared over dp are measured
// apart (head_profile.h). On a virtual clock all ranks of the run do a step over links that take no time
// (ranks_profile.h), because what is in the cache depends on what the others have computed since.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "experiments/training/planning/run_plan.h"
#include "experiments/training/prediction/head_profile.h"
#include "parallel/pipeline/simulation.h"

namespace heddle {

/// Seconds that a rank of speed 1 takes in one step, by the experiment's clock.
struct StageProfile {
  /// The costs of one micro-batch of one rank: of the first one in a step, which finds no weights in the cache and
  /// whose gradients need not be added to others, and of each later one. Stage 0's forward reads the images too.
  /// Optimizer and loss are 0 here.
  std::vector<StageCosts> first;
  std::vector<StageCosts> later;
  /// The bytes that O moves of one micro-batch of each stage; 0 where none is offloaded.
  std::vector<std::int64_t> offloaded_bytes;
  /// The loss of one micro-batch over all classes.
  double loss = 0;
  /// One micro-batch's part of the classes' gradient, which is computed once in a step.
  double head_weight = 0;
  /// The same gradient once more, for the norm that gradients are clipped by; 0 where they are not clipped, or the head
  /// is replicated.
  double head_norm = 0;
  /// Everything from the gradients to the new weights in a step, for all parameters but the head's.
  double optimizer = 0;
  /// Whether the costs were measured on the ranks of the run. They are then those of all replicas together, means over
  /// micro-batches of all sizes in place of the largest one's, and a backward includes its copies of gradients into the
  /// buckets in which they are summed.
  bool is_of_ranks = false;

  /// Takes the heads' costs from those of one rank with its part of the classes.
  void set_heads(const HeadProfile& part, const Experiment& experiment, const Mesh& mesh);
};

/// Steps that were measured already, keyed by everything that they depend on.
using StageProfiles = std::map<std::string, std::vector<StageProfile>>;

/// Measures steps of the plan's stages, with as many threads as each of the experiment's ranks has. Each call adds a
/// few steps to those in `known` (except on plan, where all are equal) and returns them all. Steps measured before and
/// after a run show the speed of the machine at that time. On a wall clock, layers that are split over tp are measured
/// whole, and each rank is assumed to take an even share of the time.
const std::vector<StageProfile>& profile_stages(const Experiment& experiment, const Dataset& dataset,
                                                const RunPlan& plan, StageProfiles& known);

/// The seconds of each application of the model: forward and backward of one micro-batch and its part of the weights'
/// update, which the cut `by time` weighs. The last one includes the head if that lies on its ranks alone.
std::vector<double> profile_applications(const Experiment& experiment, const Dataset& dataset,
                                         std::shared_ptr<const ModelSpec> model, StageProfiles& known);

}  // namespace heddle

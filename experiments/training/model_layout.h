// From an experiment to the plan of its model on its mesh.
#pragma once

#include "experiments/training/run_plan.h"
#include "layers/planner/plan_report.h"
#include "layers/planner/planner.h"
#include "parallel/pipeline/schedule.h"

namespace heddle {

/// Of a run of this experiment on a mesh; the budget is what the head leaves of the experiment's.
PlannerOptions planner_options(const Experiment& experiment, const ModelDescription& model, const Mesh& mesh);

/// What one rank's part of the head costs; `last_rank`: the coordinate along pp of the ranks that have the embeddings.
LayerCosts head_costs(const Experiment& experiment, const ModelDescription& model, const PlannerOptions& options,
                      int last_rank);

/// What rank 0 hands to the transport in a step, by formula: the head's part, what crosses from stage to stage, and the
/// model's by what it carries.
struct StepBytes {
  PerCargo<std::int64_t> model{};
  std::int64_t head = 0;
  std::int64_t stages = 0;
  std::int64_t total() const;
};
/// How many squares the ranks add up for the gradients' norm: one a parameter, and the head's.
std::int64_t squares_of(const ModelDescription& model);
/// Without recomputation.
StepBytes step_bytes(const Experiment& experiment, const RunPlan& plan);

/// The plan that a run follows. Where none fits into the budget by the planner's estimate, the one that is best without
/// a budget: the rank's meter has the last word.
PlacementPlan plan_of(const ModelDescription& model, const Experiment& experiment, const Mesh& mesh);

/// What the layers load the schedule's stages with, each weighed by itself; the last one bears the head if that lies on
/// its ranks alone.
StageLoads stage_loads(const ModelDescription& model, const Experiment& experiment, const PlacementPlan& plan,
                       const Schedule& schedule, BalanceBy by);

/// Where the model is cut into the schedule's stages, as its configuration says. `seconds`: measured ones of each
/// application in a step; if there are none, the profile's.
StageCut cut_of(const ModelDescription& model, const Experiment& experiment, const PlacementPlan& plan,
                const Schedule& schedule, std::span<const double> seconds = {});

}  // namespace heddle

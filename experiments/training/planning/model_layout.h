// The layout of an experiment's model on its mesh: how its layers are placed, and where it is cut into stages.
#pragma once

#include <functional>
#include <span>

#include "experiments/training/experiment.h"
#include "layers/planner/planner.h"
#include "layers/stages/stage_balance.h"
#include "layers/stages/stage_cut.h"
#include "parallel/pipeline/schedule.h"

namespace heddle {

/// The model of an experiment for these images, with its frozen parameters. InputError if it cannot be made.
ModelSpec model_of(const Experiment& experiment, const ImageShape& image);

/// The planner's options for a run of this experiment on a mesh. Its memory budget is what the head leaves of the
/// experiment's.
PlannerOptions planner_options(const Experiment& experiment, const ModelSpec& model, const Mesh& mesh);

/// The placements of a run. If none fit into the budget by the planner's estimate, these are the best ones without a
/// budget: the rank's meter then decides whether they fit.
ModelPlacement placement_of(const ModelSpec& model, const Experiment& experiment, const Mesh& mesh,
                            const PlannerEffort& effort = {});

/// Gives what `loads_of` gives for the placed model, such as from a cache.
using LayerLoads = std::function<StageLoads(BalanceBy)>;

/// The load of each layer on the schedule's stages, weighed by itself. The last one includes the head if that lies on
/// its ranks alone.
StageLoads stage_loads(const ModelSpec& model, const Experiment& experiment, const ModelPlacement& placement,
                       const Schedule& schedule, BalanceBy by);
/// The same for a model whose layers have these loads.
StageLoads stage_loads(StageLoads of_layers, const ModelSpec& model, const Experiment& experiment, const Mesh& mesh,
                       const Schedule& schedule, BalanceBy by);

/// Where the model is cut into the schedule's stages, as its configuration says. `seconds` were measured for each
/// application in a step; if it is empty, the profile's are taken. InputError if it cannot be cut in this way.
StageCut cut_of(const ModelSpec& model, const Experiment& experiment, const ModelPlacement& placement,
                const Schedule& schedule, std::span<const double> seconds = {});
/// The same for a model whose layers have the loads that `loads` gives.
StageCut cut_of(const ModelSpec& model, const Experiment& experiment, const Mesh& mesh, const Schedule& schedule,
                const LayerLoads& loads, std::span<const double> seconds = {});

}  // namespace heddle

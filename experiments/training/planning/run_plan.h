// The plan that all ranks of a run follow, made once before they start: the placement of every layer, its stage, and
// the order of each rank's actions.
#pragma once

#include <memory>
#include <vector>

#include "experiments/training/experiment.h"
#include "layers/stages/stage_cut.h"
#include "parallel/pipeline/engine.h"
#include "parallel/pipeline/passes/passes.h"
#include "parallel/pipeline/schedules.h"

namespace heddle {

struct RunPlan {
  /// `known_forms`: those of the model in these placements, which are computed if they are null.
  RunPlan(std::shared_ptr<const ModelSpec> spec, std::shared_ptr<const ModelPlacement> placements,
          std::shared_ptr<const ValueForms> known_forms = nullptr);

  std::shared_ptr<const ModelSpec> model;
  std::shared_ptr<const ModelPlacement> placement;
  /// All values of the model, in the placements in which layers read them.
  std::shared_ptr<const ValueForms> forms;
  StageCut cut;
  /// Stages keep only the inputs of segments of their layers.
  bool has_sqrt_segments = false;
  /// The program of a training step.
  std::shared_ptr<const PipelineProgram> training;
  /// With train.forward_only, the program of a forward pass of as many micro-batches; else null. It is the same as
  /// `training` where the schedule comes from a file without backward.
  std::shared_ptr<const PipelineProgram> forward;
  /// With an evaluation, the program of a forward pass of `embedding_batches` micro-batches; else null.
  std::shared_ptr<const PipelineProgram> embedding;
  int embedding_batches = 1;

  /// The ranks along pp of the stages; of two copies of each stage, the first. Evaluations use this one alone.
  const std::vector<int>& rank_of() const { return training->schedule.rank_of; }
  int copies() const { return training->schedule.copies(); }
  /// Whether a rank along pp has a copy of the stage.
  bool has_stage(int rank, int stage) const { return training->schedule.has_stage(rank, stage); }
  int stages() const { return cut.stages(); }
  /// The applications of a stage.
  IndexRange range(int stage) const { return cut.stage(stage); }
  /// The coordinates along pp of the ranks that have the images and that have the embeddings of a copy's micro-batches.
  int first_rank(int copy = 0) const { return training->schedule.ranks_of_copy(copy).front(); }
  int last_rank(int copy = 0) const { return training->schedule.ranks_of_copy(copy).back(); }
};

/// The numbers of ranks, micro-batches and chunks that the experiment's schedule is made for.
ScheduleShape shape_of(const Experiment& experiment);
/// The experiment's schedule with its recomputation, its O and L, its loss and its messages. A forward-only schedule
/// from a file, which needs train.forward_only, has messages alone. InputError where the schedule does not take the
/// mesh or the micro-batches, or cannot offload; for a file it names the wrong cell.
Schedule schedule_of(const Experiment& experiment);

/// How a schedule places the loss of a head on all stages.
LossForm loss_form_of(HeadWork work);
/// The model with those layers marked that are recomputed one by one. InputError where a pattern matches no layer, and
/// where all layers are recomputed by segments.
ModelSpec with_recomputed_layers(ModelSpec model, const PipelineConfig& pipeline);

/// `mesh` is that of mesh_of. `seconds` are measured for each application's forward and backward; if there are none,
/// the profile's are taken.
std::shared_ptr<const RunPlan> plan_run(const Experiment& experiment, const std::shared_ptr<const ModelSpec>& model,
                                        const Mesh& mesh, const std::vector<double>& seconds = {});

}  // namespace heddle

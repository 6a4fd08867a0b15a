#include "experiments/training/prediction/pipeline_result.h"

#include "experiments/training/prediction/prediction.h"
#include "framework/description/describe.h"
#include "layers/stages/stage_cut.h"

namespace heddle {

PipelineResult pipeline_of(const Experiment& experiment, const RunPlan& plan) {
  const bool forward_only = experiment.train.forward_only;
  PipelineResult result{.schedule_name = experiment.pipeline.schedule,
                        .recompute = forward_only ? "" : std::string(name_of(experiment.pipeline.recompute)),
                        .stages = plan.stages(),
                        .schedule = (forward_only ? plan.forward : plan.training)->schedule};
  result.ideal_speedup = ideal_speedup(result.schedule, experiment.pipeline.recompute);
  if (!forward_only) {
    KeptMicroBatches kept = kept_micro_batches(result.schedule);
    result.kept_micro_batches = std::move(kept.values);
    result.kept_inputs = std::move(kept.inputs);
  }
  for (int stage = 0; stage < plan.stages(); ++stage)
    result.stage_begins.push_back(plan.model->applications()[static_cast<std::size_t>(plan.range(stage).begin)].name);
  const std::int64_t samples = micro_batch_samples(experiment, plan.placement->mesh, 0).size;
  for (int rank = 0; rank < result.schedule.size(); ++rank) {
    int last = 0;
    for (int stage = 0; stage < plan.stages(); ++stage)
      if (plan.has_stage(rank, stage)) last = stage;
    std::string made;
    for (const std::size_t form : plan.forms->crossing(static_cast<int>(plan.range(last).end()))) {
      if (!made.empty()) made += ' ';
      made += to_string(experiment.precision().activations,
                        plan.model->shape(plan.forms->all()[form].value, samples, !forward_only));
    }
    result.outputs.push_back(made);
  }
  return result;
}

}  // namespace heddle

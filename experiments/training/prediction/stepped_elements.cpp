#include "experiments/training/prediction/stepped_elements.h"

#include <algorithm>

#include "experiments/training/planning/model_layout.h"

namespace heddle {

namespace {

double replicated_elements(const Experiment& experiment, const RunPlan& plan) {
  double elements = 0;
  for (std::size_t i = 0; i < experiment.heads(); ++i)
    if (const HeadConfig& config = experiment.head_of(i); config.is_replicated())
      elements += static_cast<double>(config.rows_of(config.classes) * embedding_size(*plan.model) +
                                      (config.bias ? config.classes : 0));
  return elements;
}

}  // namespace

bool trains_head(const Experiment& experiment, const RunPlan& plan, int pipeline_rank) {
  return !experiment.train.forward_only &&
         (experiment.head.is_everywhere() || plan.has_stage(pipeline_rank, plan.stages() - 1));
}

double trained_elements(const Experiment& experiment, const RunPlan& plan) {
  double all = replicated_elements(experiment, plan);
  for (const ModelSpec::Application& application : plan.model->applications())
    all += static_cast<double>(application.layer->trained_elements());
  return std::max(all, 1.0);
}

double stepped_elements(const Experiment& experiment, const RunPlan& plan, std::span<const LayerMessages> layers,
                        int pipeline_rank) {
  double mine = trains_head(experiment, plan, pipeline_rank) ? replicated_elements(experiment, plan) : 0;
  for (int stage = 0; stage < plan.stages(); ++stage) {
    if (!plan.has_stage(pipeline_rank, stage)) continue;
    for (std::int64_t i = plan.range(stage).begin; i < plan.range(stage).end(); ++i)
      mine += layers[static_cast<std::size_t>(i)].stepped;
  }
  return mine;
}

}  // namespace heddle

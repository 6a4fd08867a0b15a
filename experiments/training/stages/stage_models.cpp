#include "experiments/training/stages/stage_models.h"

#include "layers/stages/segments.h"

namespace heddle {

StageModels::StageModels(std::shared_ptr<const RunPlan> plan, const Rank& rank, const Construction& construction)
    : plan_(std::move(plan)), mesh_(rank.mesh) {
  const auto& applications = plan_->model->applications();
  for (int stage = 0; stage < plan_->stages(); ++stage) {
    const IndexRange range = plan_->range(stage);
    const bool is_mine = plan_->has_stage(rank.coordinates.pp, stage);
    for (std::int64_t i = range.begin; i < range.end(); ++i) {
      const ModelSpec::Application& application = applications[static_cast<std::size_t>(i)];
      for (std::size_t p = 0; is_mine && p < application.parameters; ++p) {
        numbers_.push_back(all_parameters_ + static_cast<std::int64_t>(p));
        depths_from_end_.push_back(plan_->model->depth_from_end(application));
      }
      all_parameters_ += static_cast<std::int64_t>(application.parameters);
    }
    if (!is_mine) continue;
    Model& model =
        models_
            .emplace(stage, Model(plan_->model, plan_->placement, rank.coordinates, construction, range, *plan_->forms))
            .first->second;
    if (plan_->has_sqrt_segments) model.set_segments(sqrt_segments(range));
  }
}

std::vector<Parameter*> StageModels::parameters() {
  std::vector<Parameter*> all;
  for (auto& [stage, model] : models_)
    for (Parameter* parameter : model.parameters()) all.push_back(parameter);
  return all;
}

std::vector<Buffer*> StageModels::buffers() {
  std::vector<Buffer*> all;
  for (auto& [stage, model] : models_)
    for (Buffer* buffer : model.buffers()) all.push_back(buffer);
  return all;
}

void StageModels::end_step(Rank& rank) {
  for (auto& [stage, model] : models_) model.end_step(rank);
}

void StageModels::drop_step() {
  for (auto& [stage, model] : models_) model.drop_step();
}

IndexRange StageModels::rows(std::int64_t samples, const Placements& where, int pipeline_rank, int world_rank) const {
  const Mesh::Coordinates at = mesh_.coordinates(world_rank);
  if (at.pp != pipeline_rank) return {};
  return local_box({samples}, where, mesh_, at)[0];
}

IndexRange StageModels::input_rows(std::int64_t samples, int world_rank, int copy) const {
  return rows(samples, plan_->placement->input, plan_->first_rank(copy), world_rank);
}

IndexRange StageModels::output_rows(std::int64_t samples, int world_rank, int copy) const {
  return rows(samples, plan_->placement->output, plan_->last_rank(copy), world_rank);
}

}  // namespace heddle

// The stages of the model that one rank has, as the pipeline's engine runs them.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "experiments/training/planning/run_plan.h"
#include "layers/model.h"

namespace heddle {

class StageModels {
 public:
  StageModels(std::shared_ptr<const RunPlan> plan, const Rank& rank, const Construction& construction);

  Model& at(int stage) { return models_.at(stage); }
  /// The copy of the stages that a micro-batch of the training goes through.
  int copy_of(int micro_batch) const { return plan_->training->schedule.copy_of(micro_batch); }

  /// In model order.
  std::vector<Parameter*> parameters();
  std::vector<Buffer*> buffers();
  /// The number of each of `parameters()` among the parameters of all stages.
  const std::vector<std::int64_t>& parameter_numbers() const { return numbers_; }
  /// ModelSpec::depth_from_end of the layer of each of `parameters()`.
  const std::vector<int>& depths_from_end() const { return depths_from_end_; }
  /// The number of parameters of all stages together.
  std::int64_t parameters_of_all() const { return all_parameters_; }
  void end_step(Rank& rank);
  void drop_step();

  /// The part of `samples` whose images a rank takes, and whose embeddings it gives. It is empty on ranks without the
  /// first, or the last, stage of the copy.
  IndexRange input_rows(std::int64_t samples, int world_rank, int copy = 0) const;
  IndexRange output_rows(std::int64_t samples, int world_rank, int copy = 0) const;

 private:
  IndexRange rows(std::int64_t samples, const Placements& where, int pipeline_rank, int world_rank) const;

  std::shared_ptr<const RunPlan> plan_;
  Mesh mesh_;
  std::map<int, Model> models_;
  std::vector<std::int64_t> numbers_;
  std::vector<int> depths_from_end_;
  std::int64_t all_parameters_ = 0;
};

}  // namespace heddle

#include "experiments/training/evaluation/checkpoint_model.h"

#include <algorithm>

#include "experiments/training/checkpoints/checkpoint.h"
#include "experiments/training/ranks/world_options.h"
#include "parallel/world.h"

namespace heddle {

namespace {

/// Stands in for training data that are not opened. Only their preprocessing is known.
class NoImages final : public Dataset {
 public:
  explicit NoImages(Preprocessing preprocessing) : Dataset(std::move(preprocessing)) {}
  std::int64_t classes() const override { return 0; }
  std::int64_t size(Split /*split*/) const override { return 0; }
  std::int64_t label(Split /*split*/, std::int64_t index) const override { refuse(index); }
  std::string sample_name(Split /*split*/, std::int64_t index) const override { refuse(index); }
  void read(Split /*split*/, std::int64_t index, std::span<float> /*pixels*/) const override { refuse(index); }

 private:
  [[noreturn]] static void refuse(std::int64_t index) { fail("image {} of data that were not opened", index); }
};

/// Leaves out of the experiment what its embeddings do not depend on: nothing is trained, and the classes, which may be
/// millions, are replaced by a few.
Experiment embedding_only(Experiment experiment) {
  const Experiment defaults;
  experiment.train.forward_only = true;
  experiment.train.micro_batches = 1;
  experiment.pipeline = defaults.pipeline;
  experiment.head = defaults.head;
  experiment.head.classes = 2 * ranks_of(experiment);
  experiment.further_heads.clear();
  experiment.further_data.clear();  // the sets of the evaluation are prepared like the first one
  experiment.data.share = 1;
  experiment.evaluate = true;
  experiment.evaluation.every = 0;
  experiment.evaluation.keep_best = false;
  return experiment;
}

std::shared_ptr<const Dataset> data_of(const Experiment& experiment) {
  const auto& sets = experiment.evaluation.sets;
  const bool draws = std::any_of(sets.begin(), sets.end(),
                                 [](const EvaluationSetConfig& set) { return set.type == EvaluationSetType::drawn; });
  if (!draws) return std::make_shared<NoImages>(preprocessing_of(experiment.data));
  return make_dataset(experiment.data, RandomKey{static_cast<std::uint64_t>(experiment.seed)});
}

}  // namespace

CheckpointModel::CheckpointModel(const Experiment& saved, FoundCheckpoint checkpoint)
    : experiment_(embedding_only(saved)), checkpoint_(std::move(checkpoint)), data_(data_of(experiment_)) {
  const auto model = std::make_shared<ModelSpec>(make_model(experiment_.model, data_->image()));
  plan_ = plan_run(experiment_, model, mesh_of(experiment_), {});
}

void CheckpointModel::on_ranks(Job* job, const std::function<void(Trainer&)>& use) const {
  run_ranks(world_options(experiment_, job), [&](Rank& rank) {
    Tracer tracer(rank.clock, rank.device);
    Trainer trainer(experiment_, *data_, rank, tracer, plan_);
    CheckpointFolder(checkpoint_.folder).load_backbone(trainer, checkpoint_.steps);
    use(trainer);
  });
}

}  // namespace heddle

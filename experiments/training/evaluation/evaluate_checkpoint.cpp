#include "experiments/training/evaluation/evaluate_checkpoint.h"

#include <algorithm>
#include <memory>

#include "experiments/training/checkpoints/checkpoint.h"
#include "experiments/training/evaluation/evaluation_set.h"
#include "experiments/training/ranks/job_agreement.h"
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

std::vector<EvaluatedSet> evaluate_checkpoint(const Experiment& saved, const FoundCheckpoint& checkpoint, Job* job) {
  if (!saved.evaluate || saved.evaluation.sets.empty())
    fail<InputError>("evaluation.sets: expected a set to evaluate the checkpoint on");
  const Experiment experiment = embedding_only(saved);
  std::shared_ptr<const Dataset> data;
  std::vector<EvaluationSet> sets;
  std::shared_ptr<const RunPlan> plan;
  together(job, [&] {
    data = data_of(experiment);
    sets = open_sets(experiment, *data);
    const auto model = std::make_shared<ModelSpec>(make_model(experiment.model, data->image()));
    plan = plan_run(experiment, model, mesh_of(experiment), {});
  });
  std::vector<EvaluatedSet> results;
  run_ranks(world_options(experiment, job), [&](Rank& rank) {
    Tracer tracer(rank.clock, rank.device);
    Trainer trainer(experiment, *data, rank, tracer, plan);
    CheckpointFolder(checkpoint.folder).load_backbone(trainer, checkpoint.steps);
    std::vector<EvaluatedSet> evaluated = evaluate_sets(experiment.evaluation, sets, trainer);
    if (trainer.has_broken_image()) trainer.end_at_broken_image();
    if (rank.index == 0) results = std::move(evaluated);
  });
  return results;
}

}  // namespace heddle

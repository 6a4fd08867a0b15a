#include "experiments/training/evaluation/evaluate_checkpoint.h"

#include <optional>

#include "experiments/training/evaluation/checkpoint_model.h"
#include "experiments/training/evaluation/evaluation_set.h"
#include "experiments/training/ranks/job_agreement.h"

namespace heddle {

std::vector<EvaluatedSet> evaluate_checkpoint(const Experiment& saved, const FoundCheckpoint& checkpoint, Job* job) {
  if (!saved.evaluate || saved.evaluation.sets.empty())
    fail<InputError>("evaluation.sets: expected a set to evaluate the checkpoint on (--set 'evaluation.sets=[...]')");
  std::optional<CheckpointModel> model;
  std::vector<EvaluationSet> sets;
  together(job, [&] {
    model.emplace(saved, checkpoint);
    sets = open_sets(model->experiment(), model->data());
  });
  std::vector<EvaluatedSet> results;
  model->on_ranks(job, [&](Trainer& trainer) {
    std::vector<EvaluatedSet> evaluated = evaluate_sets(model->experiment().evaluation, sets, trainer);
    if (trainer.has_broken_image()) trainer.end_at_broken_image();
    if (trainer.rank().index == 0) results = std::move(evaluated);
  });
  return results;
}

}  // namespace heddle

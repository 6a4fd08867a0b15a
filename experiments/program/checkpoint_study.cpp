#include "experiments/program/checkpoint_study.h"

#include "experiments/config/json_identity.h"
#include "experiments/program/job/study_in_job.h"
#include "experiments/program/study_checks.h"
#include "experiments/training/checkpoints/checkpoint.h"
#include "parallel/transports/transports.h"

namespace heddle {

std::string checkpoint_experiment(const FoundCheckpoint& checkpoint) {
  return CheckpointFolder(checkpoint.folder, json_identity()).experiment(checkpoint.steps);
}

Study<Experiment> checkpoint_study(const FoundCheckpoint& checkpoint, const std::vector<std::string>& given,
                                   const Job* job) {
  const std::string text = checkpoint_experiment(checkpoint);
  const std::string where = fmt::format("{}: its experiment", checkpoint.folder.string());
  Study<Experiment> study = read_study_text<Experiment>(text, where, given);
  for (auto& member : study.variants)
    if (job == nullptr && transport_type(member.root.transport).needs_job) member.root.transport = transport_of_threads;
  study = checked(std::move(study));
  fit_to_job(study, job, false);
  return study;
}

}  // namespace heddle

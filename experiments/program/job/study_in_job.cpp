#include "experiments/program/job/study_in_job.h"

#include <algorithm>

#include "experiments/config/first_change.h"
#include "experiments/training/ranks/world_options.h"
#include "framework/description/describe.h"
#include "framework/description/printable.h"
#include "framework/error.h"
#include "parallel/transports/transports.h"

namespace heddle {

void check_same_call(const std::string& text, const std::string& options, Job* job) {
  if (job == nullptr) return;
  const std::vector<std::string> all_options = job->gather(options);
  const std::vector<std::string> all_texts = job->gather(text);
  job->together([&] {
    for (std::size_t rank = 1; rank < all_texts.size(); ++rank) {
      if (all_options[rank] != options)
        fail<InputError>("rank {} was called with {}, but rank 0 with {}", rank, shortened(all_options[rank]), options);
      if (all_texts[rank] == text) continue;
      const std::optional<Change> change = first_change(text, all_texts[rank]);
      fail<InputError>(
          "rank {} was given a different experiment from rank 0{}", rank,
          change ? fmt::format(": {} is {}, on rank 0 it is {}", change->key, change->now, change->before) : "");
    }
  });
}

void fit_to_job(Study<Experiment>& study, const Job* job, bool is_elastic) {
  int ranks = 0;
  for (const auto& member : study.variants) ranks = std::max(ranks, ranks_of(member.root));
  for (auto& member : study.variants) {
    Experiment& experiment = member.root;
    if (job == nullptr && transport_type(experiment.transport).needs_job)
      fail<InputError>("{}: {} needs one process per rank: mpirun -n {} ./heddle run FILE",
                       member.document.where("/transport"), experiment.transport, ranks);
    if (job != nullptr) experiment.transport = transport_of_jobs(name_of(experiment.device)).name;
  }
  if (job != nullptr && (is_elastic ? job->size() < ranks : job->size() != ranks))
    fail<InputError>("{}: expected as many processes as the largest mesh has ranks, {}, got {}: {}", study.name, ranks,
                     job->size(), start_of_job(ranks));
}

}  // namespace heddle

#include "experiments/training/ranks/world_options.h"

#include <chrono>

#include "framework/description/describe.h"

namespace heddle {

WorldOptions world_options(const Experiment& experiment, Job* job) {
  WorldOptions options{.mesh = mesh_of(experiment),
                       .backend = std::string(name_of(experiment.device)),
                       .backend_options = {.winograd = experiment.winograd == WinogradUse::automatic,
                                           .tf32 = experiment.tf32,
                                           .planned = std::string(name_of(experiment.planned)),
                                           .profile = experiment.profile},
                       .transport = experiment.transport,
                       .job = job,
                       .key = {static_cast<std::uint64_t>(experiment.seed)},
                       .clock = {.is_virtual = experiment.clock == ClockType::virtual_time,
                                 .links = experiment.links,
                                 .speeds = experiment.ranks.speed,
                                 .jitter = experiment.ranks.jitter}};
  if (experiment.threads > 0) options.backend_options.threads = static_cast<int>(experiment.threads);
  options.timeout = std::chrono::milliseconds(static_cast<std::int64_t>(experiment.timeout * 1000));
  if (experiment.memory_budget > 0) options.memory_budget = experiment.memory_budget;
  for (int rank = 0; rank < options.mesh.size() && !experiment.ranks.memory_budget.empty(); ++rank) {
    const std::int64_t budget = experiment.budget_of(rank);
    options.rank_budgets.push_back(budget > 0 ? std::optional(budget) : std::nullopt);
  }
  if (experiment.device == DeviceType::plan) {
    // The bytes are those of a run with its own clock and threads; the time always follows from the model.
    options.backend_options.threads = threads_per_rank(options);
    options.clock.is_virtual = true;
    // Every transport moves the same bytes; without a job there are no processes to plan on.
    if (job == nullptr) options.transport = WorldOptions().transport;
  }
  return options;
}

int threads_of(const Experiment& experiment, Job* job) {
  return threads_per_rank(world_options(experiment, job));
}

int ranks_of(const Experiment& experiment) {
  return world_options(experiment, nullptr).mesh.size();
}

}  // namespace heddle

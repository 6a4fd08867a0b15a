#include "experiments/program/job.h"

#include <algorithm>

#include "experiments/config/first_change.h"
#include "experiments/training/ranks/world_options.h"
#include "framework/description/describe.h"
#include "framework/description/printable.h"
#include "framework/error.h"
#include "parallel/transports/processes/tcp/tcp_wire.h"

namespace heddle {

namespace {

/// By MPI, unless the environment tells where the processes meet.
std::unique_ptr<Wire> join(const Launch& launch, const std::function<void(const std::string&)>& on_wait) {
  if (const std::optional<MeetingPoint> point = meeting_point_of_environment()) {
    MeetingPatience patience = meeting_patience_of_environment();
    patience.on_wait = on_wait;
    return join_by_tcp(launch, *point, patience);
  }
  return join_job();
}

}  // namespace

std::unique_ptr<Processes> join_processes(const std::function<void(const std::string&)>& on_wait) {
  const std::optional<Launch> launch = launch_of_environment();
  if (!launch) {
    check_meeting_of_environment();
    return nullptr;
  }
  if (std::unique_ptr<Wire> wire = join(*launch, on_wait)) return std::make_unique<Processes>(std::move(wire));
  if (launch->size == 1) return nullptr;
  fail<InputError>(
      "this is one of {} processes of a job, but this program was built without MPI: call ./heddle, which "
      "builds and runs the one for the job's MPI",
      launch->size);
}

void check_same_call(const std::string& text, const std::string& options, Processes* job) {
  if (job == nullptr) return;
  const std::vector<std::string> all_options = job->gather(options);
  const std::vector<std::string> all_texts = job->gather(text);
  job->together([&] {
    for (std::size_t rank = 1; rank < all_texts.size(); ++rank) {
      if (all_options[rank] != options)
        fail<InputError>("rank {} was called with {}, rank 0 with {}", rank, shortened(all_options[rank]), options);
      if (all_texts[rank] == text) continue;
      const std::optional<Change> change = first_change(text, all_texts[rank]);
      fail<InputError>("rank {} was given another experiment than rank 0{}", rank,
                       change ? fmt::format(": {} is {}, there {}", change->key, change->before, change->now) : "");
    }
  });
}

void fit_to_job(Study<Experiment>& study, const Processes* job) {
  int ranks = 0;
  for (const auto& member : study.variants) ranks = std::max(ranks, ranks_of(member.root));
  for (auto& member : study.variants) {
    Experiment& experiment = member.root;
    if (job == nullptr && experiment.transport != TransportType::threads)
      fail<InputError>("{}: {} needs one process a rank: mpirun -n {} ./heddle run FILE",
                       member.document.where("/transport"), name_of(experiment.transport), ranks);
    if (job != nullptr)
      experiment.transport = experiment.device == DeviceType::cuda ? TransportType::nccl : TransportType::mpi;
  }
  if (job != nullptr && job->size() != ranks)
    fail<InputError>("{}: expected as many processes as the largest mesh has ranks, {}, got {}: {}", study.name, ranks,
                     job->size(),
                     meeting_point_of_environment() ? fmt::format("WORLD_SIZE={}", ranks)
                                                    : fmt::format("mpirun -n {} ./heddle run FILE", ranks));
}

}  // namespace heddle

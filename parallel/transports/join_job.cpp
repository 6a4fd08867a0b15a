#include "parallel/transports/join_job.h"

#include <array>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "framework/error.h"
#include "parallel/transports/processes/mpi/mpi_wire.h"
#include "parallel/transports/processes/number.h"
#include "parallel/transports/processes/tcp/rendezvous_address.h"
#include "parallel/transports/processes/tcp/tcp_wire.h"

namespace heddle {

namespace {

// Set by restarts only.
constexpr const char* restarts_variable = "HEDDLE_RESTARTS";
constexpr const char* first_size_variable = "HEDDLE_FIRST_WORLD_SIZE";
constexpr const char* listen_host_variable = "HEDDLE_LISTEN_HOST";
// Set by ./heddle, which starts a program again that was killed.
constexpr const char* started_again_variable = "HEDDLE_STARTED_AGAIN";

/// The environment variables by which a launcher gives each process its place in the job.
struct LauncherVariables {
  const char* rank;
  const char* size;
  const char* local_rank;
  /// They mean a job only beside MASTER_ADDR and MASTER_PORT: no launcher owns these names, and other software may set
  /// them, too.
  bool needs_rendezvous_address = false;
};

constexpr std::array<LauncherVariables, 4> launchers{{
    {"RANK", "WORLD_SIZE", "LOCAL_RANK", true},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
    // Slurm's are those of a step, which srun starts: a batch script by itself is not a rank.
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"},
}};

std::optional<int> number_in(const char* variable) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? std::nullopt : number_of<int>(text);
}

/// The process's number on its machine, where the variable is set.
std::optional<int> local_rank_in(const char* variable) {
  const char* const text = std::getenv(variable);
  if (text == nullptr) return {};
  const std::optional<int> rank = number_of<int>(text);
  if (!rank || *rank < 0) fail<InputError>("{}: expected a number from 0 on, got '{}'", variable, text);
  return rank;
}

std::unique_ptr<Wire> join(const Launch& launch, const std::function<void(const std::string&)>& on_note) {
  const std::optional<RendezvousAddress> address = rendezvous_address_of_environment();
  if (!address) return join_by_mpi();
  RendezvousTimeouts timeouts = rendezvous_timeouts_of_environment();
  timeouts.on_note = on_note;
  return join_by_tcp(launch, *address, timeouts, JobSecret::of_environment());
}

}  // namespace

std::optional<Launch> launch_of_environment() {
  for (const LauncherVariables& names : launchers) {
    const std::optional<int> rank = number_in(names.rank);
    const std::optional<int> size = number_in(names.size);
    if (!rank || !size || (names.needs_rendezvous_address && !has_rendezvous_address())) continue;
    const char* const listen_host = std::getenv(listen_host_variable);
    const char* const started_again = std::getenv(started_again_variable);
    return Launch{.rank = *rank,
                  .size = *size,
                  .local_rank = local_rank_in(names.local_rank),
                  .restarts = number_in(restarts_variable).value_or(0),
                  .first_size = number_in(first_size_variable),
                  .listen_host = listen_host != nullptr ? listen_host : "",
                  .was_started_again = started_again != nullptr && std::string_view(started_again) == "1"};
  }
  return {};
}

std::unique_ptr<Job> join_job(const std::function<void(const std::string&)>& on_note,
                              std::optional<std::uint64_t> elastic_checksum) {
  std::optional<Launch> launch = launch_of_environment();
  if (!launch) {
    check_rendezvous_of_environment();
    return nullptr;
  }
  launch->is_elastic = elastic_checksum.has_value();
  launch->call_checksum = elastic_checksum.value_or(0);
  if (std::unique_ptr<Wire> wire = join(*launch, on_note)) return std::make_unique<Job>(std::move(wire));
  if (launch->size == 1) return nullptr;
  fail<InputError>(
      "this is one of {} processes of a job, but this program was built without MPI: call ./heddle, which "
      "builds and runs the one for the job's MPI",
      launch->size);
}

void set_launch(const RankAssignment& assignment) {
  const auto set = [](const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); };
  if (const std::optional<Launch> launch = launch_of_environment(); launch && !launch->first_size)
    set(first_size_variable, fmt::format("{}", launch->size));
  set("RANK", fmt::format("{}", assignment.rank));
  set("WORLD_SIZE", fmt::format("{}", assignment.size));
  set("MASTER_ADDR", assignment.host);
  set("MASTER_PORT", fmt::format("{}", assignment.port));
  set(restarts_variable, fmt::format("{}", assignment.restarts));
  if (!assignment.listen_host.empty()) set(listen_host_variable, assignment.listen_host);
  ::unsetenv("LOCAL_RANK");  // it counts the processes of the first start
  ::unsetenv(started_again_variable);
}

std::string start_of_job(int processes) {
  return has_rendezvous_address() ? fmt::format("WORLD_SIZE={}", processes)
                                  : fmt::format("mpirun -n {} ./heddle run FILE", processes);
}

}  // namespace heddle

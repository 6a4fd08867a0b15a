#include "experiments/program/job/elastic.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <set>
#include <thread>
#include <utility>

#include <sys/prctl.h>
#include <unistd.h>

#include "experiments/program/interruption_signals.h"
#include "experiments/program/study_input.h"
#include "experiments/training/ranks/unix_time.h"
#include "experiments/training/ranks/world_options.h"
#include "framework/description/printable.h"
#include "framework/description/text.h"
#include "framework/error.h"
#include "framework/files/atomic_file.h"
#include "framework/files/crc32c.h"
#include "parallel/transports/processes/tcp/handshake.h"
#include "parallel/transports/processes/tcp/job_secret.h"
#include "parallel/transports/processes/tcp/rendezvous_address.h"
#include "parallel/transports/processes/tcp/rendezvous_wait.h"
#include "parallel/transports/processes/tcp/tcp_socket.h"

namespace heddle {

namespace {

constexpr const char* time_variable = "HEDDLE_RESTART_TIME";
constexpr const char* cause_variable = "HEDDLE_RESTART_CAUSE";
constexpr const char* summary_variable = "HEDDLE_EARLIER_SUMMARY";
constexpr const char* first_start_variable = "HEDDLE_FIRST_START";

Experiment& only_variant(Study<Experiment>& study) {
  if (study.variants.size() != 1)
    fail<InputError>("--elastic: expected an experiment with one variant, {} has {}", study.name,
                     study.variants.size());
  Experiment& experiment = study.variants.front().root;
  if (!experiment.train.save)
    fail<InputError>("--elastic: without checkpoints there is nothing to continue from: train.save is false");
  return experiment;
}

/// The preferred one first.
std::vector<MeshConfig> meshes_of(const Experiment& experiment) {
  std::vector<MeshConfig> meshes{experiment.mesh};
  meshes.insert(meshes.end(), experiment.elastic.meshes.begin(), experiment.elastic.meshes.end());
  return meshes;
}

/// The arguments of this process, as those of one that continues.
std::vector<std::string> arguments_to_continue() {
  std::ifstream line("/proc/self/cmdline");
  std::vector<std::string> arguments;
  for (std::string argument; std::getline(line, argument, '\0');) arguments.push_back(argument);
  std::erase_if(arguments, [](const std::string& argument) {
    return argument.starts_with("--force") || argument.starts_with("--resume");
  });
  // Not at the end, where it could follow a `--`.
  arguments.insert(std::find(arguments.begin(), arguments.end(), "run") + 1, "--resume=auto");
  return arguments;
}

std::filesystem::path leader_file(const std::filesystem::path& results) {
  return results / "leader.txt";
}

/// Returns why it cannot be written; empty if it was.
std::string write_leader(const std::filesystem::path& results, const LeaderAddress& leader) {
  try {
    write_file_atomically(leader_file(results), fmt::format("{} {}\n", leader.host, leader.port));
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

/// Nothing if there is no such file, or if it is damaged.
std::optional<LeaderAddress> read_leader(const std::filesystem::path& results) {
  constexpr std::uintmax_t max_bytes = 300;  // a host's name has at most 253
  const std::filesystem::path path = leader_file(results);
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error) || std::filesystem::file_size(path, error) > max_bytes) return {};
  std::ifstream file(path);
  LeaderAddress leader;
  if (!(file >> leader.host >> leader.port)) return {};
  return leader;
}

/// A handshake with what listens there.
HandshakeResult try_to_reach(const LeaderAddress& leader, const JobSecret& secret) {
  try {
    const TcpSocket::Deadline end = TcpSocket::Clock::now() + std::chrono::seconds(2);
    const TcpSocket socket = TcpSocket::try_connect(TcpSocket::resolve(leader.host, leader.port), end);
    if (socket.is_open()) return connecting_handshake(socket, secret, end);
  } catch (const Error&) {
    // There is no such host.
  }
  return {HandshakeResult::Kind::closed};
}

/// When the summary in a results folder was written, as a text; empty if there is none.
std::string version_of_summary(const std::filesystem::path& results) {
  std::error_code error;
  const auto time = std::filesystem::last_write_time(results / "summary.json", error);
  return error ? "" : fmt::format("{}", time.time_since_epoch().count());
}

/// Whether the job can restart because a process with one of these ranks has ended. A failure of a process that is
/// still there, such as too little memory, would only happen again.
bool can_go_on(const Job& job, const ElasticConfig& config, int ranks, std::ostream& all) {
  const std::set<int>& missing = job.missing();
  if (missing.lower_bound(ranks) == missing.begin()) return false;
  const std::optional<Restart> last = restart_of_environment();
  if ((last ? last->number : 0) < config.restarts) return true;
  int lowest = 0;
  while (missing.contains(lowest)) ++lowest;
  if (job.rank() == lowest)
    all << fmt::format("elastic.restarts: the job does not restart again after {}\n",
                       counted(config.restarts, "restart", "restarts"));
  return false;
}

/// Restarts a job after a failure, and returns this process's part in it; nothing if it is asked to end meanwhile.
std::optional<std::pair<RankAssignment, Restart>> regroup_job(Job& job, const ElasticConfig& config,
                                                              int preferred_ranks, const std::filesystem::path& results,
                                                              const Interruption& interruption, std::ostream& all,
                                                              const std::string& why) {
  const double failed_at = unix_seconds();
  const std::string prefix = job.rank() > 0 ? fmt::format("heddle: rank {}: ", job.rank()) : "";
  const auto lead = [&](const LeaderAddress& leader) {
    all << fmt::format("{}{}; the other processes restart the job\n", prefix, why);
    if (const std::string unwritten = write_leader(results, leader); !unwritten.empty())
      all << fmt::format("{}{}: processes that are started again cannot find this one\n", prefix, unwritten);
    all << std::flush;
  };
  const std::optional<RankAssignment> assignment =
      job.regroup({.wait_for_lost = std::chrono::duration_cast<std::chrono::milliseconds>(
                       std::chrono::duration<double>(config.wait)),
                   .preferred_ranks = preferred_ranks,
                   .on_lead = lead,
                   .on_turned_away = [&](const std::string& what) { all << prefix << what << "\n"
                                                                        << std::flush; },
                   .is_cancelled = [&] { return interruption.signal != 0; }});
  if (!assignment) return {};
  return std::pair(*assignment, Restart{.number = assignment->restarts, .why = why, .failed_at = failed_at});
}

}  // namespace

std::uint64_t checksum_of_call(const std::filesystem::path& file, const std::vector<std::string>& sets,
                               const std::string& options) {
  try {
    Study<Experiment> study = read_study<Experiment>(file, sets);
    return crc32c(effective_json(study) + options);
  } catch (const InputError&) {
    return 0;
  }
}

void find_leader(const std::filesystem::path& results, const std::function<void(const std::string& what)>& on_note) {
  const std::optional<Launch> launch = launch_of_environment();
  const std::optional<RendezvousAddress> first = rendezvous_address_of_environment();
  if (!launch || !first) return;
  const JobSecret secret = JobSecret::of_environment();
  const RendezvousTimeouts timeouts = rendezvous_timeouts_of_environment();
  RendezvousWait wait(timeouts.timeout, timeouts.note_after);
  const std::string earlier_summary = version_of_summary(results);
  const LeaderAddress first_leader{first->host, first->port};
  std::string refused;  // why, by a process that responded
  const auto why_unreachable = [&](const LeaderAddress& leader) -> std::optional<std::string> {
    const HandshakeResult result = try_to_reach(leader, secret);
    if (result.kind == HandshakeResult::Kind::done) return {};
    const std::string words = in_words(result, secret);
    if (result.is_refusal()) refused = words;
    return words;
  };
  for (;;) {
    if (const std::string summary = version_of_summary(results); !summary.empty() && summary != earlier_summary)
      fail<RankFailed>("{}: the job has ended without this process", results.string());
    std::string why = fmt::format("{} names ", printable(leader_file(results).string()));
    const std::optional<LeaderAddress> leader = read_leader(results);
    if (leader) {
      const std::optional<std::string> problem = why_unreachable(*leader);
      if (!problem) {
        ::setenv("MASTER_ADDR", leader->host.c_str(), 1);
        ::setenv("MASTER_PORT", fmt::format("{}", leader->port).c_str(), 1);
        return;
      }
      why += printable(fmt::format("{}:{}, which {}", leader->host, leader->port, *problem));
    } else {
      why += "none";
    }
    if (launch->rank > 0 && leader != first_leader) {
      const std::optional<std::string> problem = why_unreachable(first_leader);
      if (!problem) return;
      why += fmt::format(", and {} {}", to_string(*first), *problem);
    }
    if (wait.is_over())
      fail<RankFailed>("HEDDLE_STARTED_AGAIN: no process of the job was found within {} s: {}{}",
                       std::chrono::duration_cast<std::chrono::seconds>(timeouts.timeout).count(), why,
                       why.find(refused) == std::string::npos ? fmt::format("; one was, which {}", refused) : "");
    if (TcpSocket::Clock::now() >= wait.next_stop() && wait.must_report())
      on_note(fmt::format("rank {}, which was started again, looks for its job: {}", launch->rank, why));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

Job* join_restarted(const std::filesystem::path& results, std::chrono::duration<double> wait,
                    const std::function<Job*()>& join, const std::function<void(const std::string& what)>& on_note) {
  using Clock = std::chrono::steady_clock;
  remember_summary(results);  // this process may lead a restart before the job has written its own
  const auto end =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(wait) + rendezvous_timeouts_of_environment().timeout;
  for (;;) {
    find_leader(results, on_note);
    try {
      return join();
    } catch (const LeaderLost& error) {
      if (Clock::now() >= end) throw;
      on_note(fmt::format("{}: this process, which was started again, looks for another one", error.what()));
    }
  }
}

void forget_leader(const std::filesystem::path& results) {
  std::error_code ignored;  // a file that cannot be removed names a process that does not respond
  std::filesystem::remove(leader_file(results), ignored);
}

void keep_program_name() {
  ::prctl(PR_SET_NAME, program_invocation_short_name);
}

std::optional<Restart> restart_of_environment() {
  const char* const time = std::getenv(time_variable);
  const char* const cause = std::getenv(cause_variable);
  const std::optional<Launch> launch = launch_of_environment();
  if (!launch || launch->restarts == 0 || time == nullptr || cause == nullptr) return {};
  return Restart{.number = launch->restarts, .why = cause, .failed_at = std::strtod(time, nullptr)};
}

int choose_mesh(Study<Experiment>& study, int processes) {
  Experiment& experiment = only_variant(study);
  std::vector<int> sizes;
  for (const MeshConfig& mesh : meshes_of(experiment)) {
    experiment.mesh = mesh;
    sizes.push_back(ranks_of(experiment));
    if (sizes.back() <= processes) return sizes.front();
  }
  const std::string why = fmt::format("--elastic: the smallest mesh of {} has {} ranks, and there {} {}", study.name,
                                      *std::min_element(sizes.begin(), sizes.end()), processes == 1 ? "is" : "are",
                                      counted(processes, "process", "processes"));
  if (restart_of_environment()) fail<RankFailed>("{}", why);
  fail<InputError>("{}", why);
}

void check_can_restart(const Job* job) {
  if (job == nullptr || !has_rendezvous_address())
    fail<InputError>(
        "--elastic: expected a job of processes that are connected by sockets, with RANK, WORLD_SIZE, MASTER_ADDR and "
        "MASTER_PORT for each");
}

std::optional<std::string> first_start_of_environment() {
  const char* const asked = std::getenv(first_start_variable);
  return restart_of_environment() && asked != nullptr ? std::optional<std::string>(asked) : std::nullopt;
}

void remember_summary(const std::filesystem::path& results) {
  ::setenv(summary_variable, version_of_summary(results).c_str(), 1);
}

void check_goes_on(const std::filesystem::path& results) {
  const char* const earlier = std::getenv(summary_variable);
  const std::string version = version_of_summary(results);
  if (restart_of_environment() && !version.empty() && (earlier == nullptr || version != earlier))
    fail<RankFailed>("{}: the job has ended without this process", results.string());
}

void restart_unprepared(Job& job, const ElasticConfig& config, int preferred_ranks,
                        const std::filesystem::path& results, std::ostream& all, const std::string& why,
                        const char* asked) {
  if (!can_go_on(job, config, job.size(), all)) return;
  const Interruption none;
  const auto assignment = regroup_job(job, config, preferred_ranks, results, none, all, why);
  if (!assignment) return;
  ::setenv(first_start_variable, asked, 0);  // that of the first start, also if this is not the first restart
  restart_as(assignment->first, assignment->second);
}

VariantResult run_or_restart(Job& job, const ElasticConfig& config, int ranks, int preferred_ranks,
                             const std::filesystem::path& results, Interruption& interruption, std::ostream& all,
                             const std::function<VariantResult()>& run) {
  const auto goes_on = [&](int needed) { return interruption.signal == 0 && can_go_on(job, config, needed, all); };
  std::optional<VariantResult> result;
  std::string why;
  try {
    result = run();
    if (result->status != VariantResult::Status::failed || !goes_on(ranks)) return *std::move(result);
    why = result->error;
  } catch (const RankFailed& error) {
    if (!goes_on(job.size())) throw;  // outside of the training, all processes are needed
    why = error.what();
  }
  InterruptionSignals::set_then("this process does not restart");
  interruption.is_heeded = true;
  const auto end_heeding = [&](void*) { interruption.is_heeded = false; };
  std::unique_ptr<void, decltype(end_heeding)> heeding(&interruption, end_heeding);  // also where it throws
  const auto assignment = regroup_job(job, config, preferred_ranks, results, interruption, all, why);
  heeding.reset();
  if (assignment && interruption.signal == 0) {
    ::unsetenv(first_start_variable);
    restart_as(assignment->first, assignment->second);
  }
  if (!result) fail<RankFailed>("{}", why);
  if (const int signal = interruption.signal; signal != 0) {
    result->status = VariantResult::Status::interrupted;
    result->interrupted_by = signal;
    result->error = fmt::format("by SIG{}, after: {}", ::sigabbrev_np(signal), why);
  }
  return *std::move(result);
}

void restart_as(const RankAssignment& assignment, const Restart& restart) {
  set_launch(assignment);
  ::setenv(time_variable, fmt::format("{:.3f}", restart.failed_at).c_str(), 1);
  ::setenv(cause_variable, restart.why.c_str(), 1);
  std::vector<std::string> arguments = arguments_to_continue();
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  ::execv("/proc/self/exe", argv.data());
  fail("the program cannot be run again: {}", std::strerror(errno));
}

}  // namespace heddle

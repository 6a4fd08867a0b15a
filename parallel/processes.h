// The processes that a job (mpirun, srun) started, each with one rank: they communicate in sections, one after the
// other, of which each ends on all of them in the same way. A failure in one is known to all before the next begins.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "parallel/transport.h"
#include "parallel/wire.h"

namespace heddle {

/// What the environment says about the job that started this process.
struct Launch {
  int rank = 0;
  int size = 1;
  /// Its place among the processes of its machine, where that is told; InputError if it is no number from 0 on.
  std::optional<int> local_rank{};
};
/// By RANK and WORLD_SIZE where there is a meeting point (tcp/meeting_point.h), else by the variables of Open MPI, of
/// MPICH and its kin, and of Slurm; nothing for a process that was started alone.
std::optional<Launch> launch_of_environment();

/// Rank 0, which reports how the job ends, did not come in time.
class LeaderLate : public RankFailed {
 public:
  using RankFailed::RankFailed;
};

/// Why a process's part of a section failed.
struct Failure {
  enum class Kind : std::uint8_t { error, rank_failed, out_of_memory, input_error, leader_late } kind = Kind::error;
  std::string why;
};
/// Nothing for ranks that only had to stop.
std::optional<Failure> failure_of(const std::exception_ptr& exception);

class Device;
class ElementPath;
class Nccl;
class NcclPath;
class PostOffice;

class Processes {
 public:
  explicit Processes(std::unique_ptr<Wire> wire);
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  int rank() const;
  int size() const;
  /// Processes on this machine, and this one's place among them.
  int local_size() const;
  int local_rank() const;
  /// What connects them: `Open MPI 4.1.4`, `sockets`.
  std::string name() const;

  /// This process's end of the communicator of the section's ranks, the first `ranks` processes. A wait lasts `timeout`
  /// at most.
  std::unique_ptr<Transport> connect(int ranks, std::chrono::milliseconds timeout);
  /// The same, with elements that go by NCCL from this device's GPU to the other ranks'. The device outlives the
  /// section. InputError on all of them if two ranks have one GPU.
  std::unique_ptr<Transport> connect(int ranks, std::chrono::milliseconds timeout, Nccl& nccl, const Device& device);
  /// Tells the others that this process's part of the section is over and how, and waits for theirs. Gives the lowest
  /// rank's failure, with the rank: the same on all processes.
  std::optional<std::pair<int, Failure>> conclude(const std::exception_ptr& exception);
  /// Some did not answer after a failure: there are no more sections, and what they had on its way may still arrive in
  /// this process's memory.
  bool is_broken() const;
  /// A section without a communicator: each process does it, and it fails on all, by the same error, or on none.
  void together(const std::function<void()>& body);
  /// Between sections: on rank 0 what each process gave, elsewhere nothing. Empty for a process that is gone.
  std::vector<std::string> gather(const std::string& content);

  /// What is called on one of the other processes, the lowest that is there, with the error of a section that failed
  /// because rank 0 did not come in time, once rank 0 has not answered for a second more and so cannot report it.
  void set_on_silent_leader(std::function<void(const std::string& why)> on_silent_leader);

  /// The library's own collective, see `Wire::plain`.
  bool plain(Operation operation, std::span<float> in, std::span<float> out);

  /// Why a process that is gone before it left is gone: `rank 1: its process is gone`. Nothing of others.
  std::optional<std::string> lost(int process) const;
  /// None is.
  bool is_whole() const;

  /// The end of the job: waits for all processes to be here. The last call. Where some do not answer since a failure,
  /// ends the job, this process included, by this exit code, once rank 0 is here: it may still be writing results. Does
  /// not wait for rank 0 where its silence has been reported.
  void leave(int code);

 private:
  std::unique_ptr<PostOffice> office_;
  std::unique_ptr<ElementPath> wire_;
  std::unique_ptr<NcclPath> nccl_;  // of the present section
};

}  // namespace heddle

// The processes of a job (mpirun, srun, or connected by sockets), each with one rank. They communicate in sections, one
// after the other; each section ends on all of them in the same way. All processes know of a failure in one section
// before the next one begins.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "parallel/communicator/transport.h"
#include "parallel/transports/failure.h"
#include "parallel/transports/processes/element_path.h"
#include "parallel/transports/processes/launch.h"
#include "parallel/transports/processes/wire.h"

namespace heddle {

class ProgressEngine;

class Job {
 public:
  /// `min_section_timeout`: see section_timeout.
  explicit Job(std::unique_ptr<Wire> wire, std::chrono::milliseconds min_section_timeout = std::chrono::minutes(1));
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  int rank() const;
  int size() const;
  /// The number of processes on this machine, and this one's number among them, from 0.
  int local_size() const;
  int local_rank() const;
  /// What connects the processes: `Open MPI 4.1.4`, `sockets`.
  std::string name() const;

  /// This process's end of the communicator of the section's ranks, which are the first `ranks` processes. A wait lasts
  /// at most `timeout`. RankFailed if the job is broken.
  std::unique_ptr<Transport> connect(int ranks, std::chrono::milliseconds timeout);
  /// The same, with elements that move to and from this device by the section's own path. The device outlives the
  /// section. Throws what ElementPath::begin does.
  std::unique_ptr<Transport> connect(int ranks, std::chrono::milliseconds timeout, const MakeElementPath& make,
                                     const Device& device);
  /// Ends this process's part of the section, reports how, and waits for the other processes. Returns the failure of
  /// the lowest rank, with that rank: the same on all processes.
  std::optional<std::pair<int, Failure>> conclude(const std::exception_ptr& exception);
  /// Some processes did not answer after a failure: there are no more sections, and what they had sent may still arrive
  /// in the memory of this process.
  bool is_broken() const;
  /// A section without a communicator: every process runs the body, and it fails on all, with the same error, or on
  /// none.
  void together(const std::function<void()>& body);
  /// How long a process may be late. Each communicator sets it anew; initially it is ten minutes.
  void set_timeout(std::chrono::milliseconds timeout);
  /// The same between the communicators, where it is at least a minute. A process that is not needed waits for as
  /// long as the others take.
  std::chrono::milliseconds section_timeout() const;
  /// From now on only the first `processes` processes are needed; initially all are. The loss of another one fails no
  /// section, and none is waited for. To be called on all processes, between the same sections.
  void set_needed(int processes);
  /// Between sections: returns the texts of all processes on rank 0, and nothing elsewhere. The text of a process that
  /// has ended, or is not needed, is empty.
  std::vector<std::string> gather(const std::string& content);

  /// Sets the function that reports a failure in place of rank 0. Where a section fails because rank 0 did not respond
  /// in time, and rank 0 does not respond for another second either, the lowest rank that responds calls the function
  /// with the error.
  void set_on_silent_leader(std::function<void(const std::string& why)> on_silent_leader);

  /// See Wire::native_collective.
  bool native_collective(Operation operation, std::span<float> in, std::span<float> out);

  /// The reason why a process has ended before it left: `rank 1: its process has ended`. Nothing for others, and once
  /// this process has left.
  std::optional<std::string> why_lost(int process) const;
  /// The processes without a part in the end of the last section: they have ended before, or did not respond. One that
  /// was not needed is among them only if it has ended.
  const std::set<int>& missing() const;
  /// Whether all processes are still running.
  bool is_whole() const;

  /// See Wire::regroup; called on all processes that are left, after a section that failed. The missing ones are lost.
  /// This process has then left the job.
  std::optional<RankAssignment> regroup(const RegroupOptions& options);

  /// Whether this process has left the job to restart it, or to end.
  bool has_left() const { return has_left_; }

  /// Ends the job, unless this process has left it: waits until all processes have called it. The last call. Where some
  /// have not responded since a failure, it ends the job and this process with this exit code. It first waits for rank
  /// 0, which may still be writing results, unless the silence of rank 0 has been reported.
  void leave(int code);

 private:
  std::unique_ptr<ProgressEngine> engine_;
  std::unique_ptr<ElementPath> wire_;
  std::unique_ptr<ElementPath> path_;  // the present section's own, if it has one
  bool has_left_ = false;
};

}  // namespace heddle

// One suite for every transport. In a process that was started alone, a case runs over `threads`; with
// HEDDLE_TEST_TRANSPORT=nccl over `nccl`, with stand-ins for NCCL and for the job, and with
// HEDDLE_TEST_TRANSPORT=sockets over sockets between such stand-ins for processes. In a process of a job the ranks are
// the job's processes; cases for a different number of ranks are skipped with a message: the suite is run once for each
// number.
#pragma once

#include <cstdlib>
#include <functional>
#include <string>

#include <doctest/doctest.h>

#include "parallel/transports/processes/job.h"
#include "parallel/transports/processes/nccl/nccl_path.h"
#include "tests/support/processes/local_job.h"
#include "tests/support/processes/nccl_on_host.h"
#include "tests/support/ranks.h"

namespace heddle::test {

/// The job of which this process is a rank, if any.
inline Job* job = nullptr;

/// The transport over which this process runs its cases.
inline std::string transport() {
  if (job != nullptr) return "processes";
  const char* const name = std::getenv("HEDDLE_TEST_TRANSPORT");
  if (name == nullptr) return "threads";
  return name == std::string("sockets") ? "processes" : name;
}

/// Whether the ranks are threads of this process, so that a case sees all of them at once.
inline bool ranks_share_a_process() {
  return job == nullptr;
}

inline bool can_run(int count) {
  return job == nullptr || job->size() == count;
}

inline void pass_over(int count) {
  if (job == nullptr || job->rank() == 0) MESSAGE("skipped: needs " << count << " ranks");
}

/// Options of `count` ranks over this process's transport.
inline WorldOptions on_transport(int count, const std::string& backend = tested_backend()) {
  WorldOptions options = ranks(count, backend);
  options.transport = transport();
  options.job = job;
  return options;
}

/// `run_ranks` with options of `on_transport`.
inline void run(const WorldOptions& options, const std::function<void(Rank&)>& body) {
  const TransportType& type = transport_type(options.transport);
  if (!type.needs_job || job != nullptr) return run_ranks(options, body);
  if (type.element_path == nullptr) return run_in_processes(options, body, Connection::sockets);
  REQUIRE_MESSAGE(type.name == "nccl", "run() does not know how ranks are connected over ", type.name);
  NcclOnHost nccl;
  WorldOptions mine = options;
  mine.element_path = nccl_elements(nccl);
  try {
    run_in_processes(mine, body);
  } catch (...) {
    CHECK(nccl.is_clean());
    throw;
  }
  CHECK(nccl.is_clean());
  CHECK(nccl.counts().aborted == 0);
}

/// Runs the body on `count` ranks, or skips it.
inline void on_ranks(int count, const std::function<void(Rank&)>& body) {
  if (can_run(count))
    run(on_transport(count), body);
  else
    pass_over(count);
}

/// Checks that `run_ranks` throws this error of this class on every process.
template <class ErrorType = RankFailed>
void fails_on_ranks(const WorldOptions& options, const std::function<void(Rank&)>& body, const std::string& expected) {
  if (!can_run(options.mesh.size())) {
    pass_over(options.mesh.size());
    return;
  }
  CHECK_THROWS_WITH_AS(run(options, body), expected.c_str(), ErrorType);
}
template <class ErrorType = RankFailed>
void fails_on_ranks(int count, const std::function<void(Rank&)>& body, const std::string& expected) {
  fails_on_ranks<ErrorType>(on_transport(count), body, expected);
}

}  // namespace heddle::test

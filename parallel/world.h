// Runs one function on every rank of a mesh, each rank in a thread or process with a device of its own, and turns their
// failures into one error.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "parallel/rank.h"
#include "parallel/transports/transports.h"

namespace heddle {

class Processes;

/// How the ranks' time is told.
struct ClockOptions {
  bool is_virtual = false;
  /// The rest is for virtual clocks. Speeds of the ranks in order, relative to the machine; 1 where there is none.
  LinkModel links{};
  std::vector<double> speeds{};
  double jitter = 0;
  /// Seconds that a rank has computed so far; if empty, its thread's CPU time, and on plan what the backend counts. By
  /// CPU time one rank of a process computes at a time.
  std::function<double(const Device&)> computed{};
};

struct WorldOptions {
  Mesh mesh{};
  std::string backend = "cpu";
  /// The name of a row of `transport_types()`.
  std::string transport = "threads";
  /// The processes of the job that have the ranks, one each, for transports that need a job.
  Processes* processes = nullptr;
  /// Moves elements between processes in place of what the transport would use; for tests.
  MakeElementPath elements{};
  RandomKey key{};
  /// Bytes a rank may hold.
  std::optional<std::int64_t> memory_budget{};
  ClockOptions clock{};
  /// Computing threads a rank; 0: cores / ranks, at least 1; with a virtual clock 1, which sees no others.
  int threads = 0;
  /// The backend whose bytes plan counts, and the device that it counts time for.
  std::string planned = "cpu";
  DeviceProfile profile{};
  /// Faster 3 x 3 convolutions in f32, with larger rounding errors: the cpu's, and a GPU's products of f32 (see
  /// BackendOptions).
  bool winograd = false;
  bool tf32 = false;
  /// How long a wait may take before it names the peer that did not come; as many times longer as there are ranks where
  /// one computes at a time. While the peer waits for others itself its time stands still, so that the rank that keeps
  /// all of them is named.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  /// Called once, by run_ranks's own thread, when a rank has failed and another has still not ended `patience` after: a
  /// thread that computes for ever cannot be ended, only the program can. run_ranks waits on.
  std::function<void(const std::string& why)> on_stall{};
  std::chrono::milliseconds patience = std::chrono::minutes(1);
};

/// Threads a rank that these options give: with many processes, one's share of its machine's cores.
int threads_per_rank(const WorldOptions& options);

/// InputError if this process has no device for its rank, or the transport lacks a library.
void find_device(const WorldOptions& options);

/// Returns when the body has returned on all ranks. If it throws on one, the others' waits end, and one error comes
/// out: OutOfMemory and InputError as they are, what communicators throw (RankFailed) as it is, anything else as
/// RankFailed `rank 2 failed: <what>`. Ranks that only had to stop are never the cause; of several causes the lowest
/// rank's counts. Devices end with this call: no tensor made in the body may outlive it. With many processes all call
/// it and the same error comes out on all of them; a process beyond the mesh runs nothing.
void run_ranks(const WorldOptions& options, const std::function<void(Rank&)>& body);

}  // namespace heddle

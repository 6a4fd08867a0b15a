// A job whose processes are threads of this one: each has its own end of a wire, as MPI would give it. Its results
// about control messages hold for all transports between processes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "parallel/transports/processes/wire.h"
#include "parallel/world.h"

namespace heddle::test {

class LocalWires {
 public:
  explicit LocalWires(int processes);
  ~LocalWires();
  LocalWires(const LocalWires&) = delete;
  LocalWires& operator=(const LocalWires&) = delete;

  /// To be called once for each process; it must not outlive this.
  std::unique_ptr<Wire> wire(int process);

  struct Shared;

 private:
  std::unique_ptr<Shared> shared_;
};

/// The wire that connects these processes.
enum class Connection { memory, sockets };

/// Runs the body in `processes` threads, each as one process of a job. Throws what they threw, which must be the same
/// on all of them.
void in_processes(int processes, const std::function<void(Job& own)>& body, Connection connection = Connection::memory);

/// `run_ranks` with a process for each rank of the mesh.
void run_in_processes(const WorldOptions& options, const std::function<void(Rank&)>& body,
                      Connection connection = Connection::memory);

/// A port at which no process listens.
std::uint16_t free_port();

}  // namespace heddle::test

// A job whose processes are threads of this one: each has its own end of a wire, as MPI would give it. What it shows of
// transports among processes holds for the words of all of them.
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

/// What such processes are connected by.
enum class Connection { memory, sockets };

/// Does this in `processes` threads, each as one process of a job. What they threw, which must be the same on all of
/// them, comes out.
void in_processes(int processes, const std::function<void(Processes& own)>& body,
                  Connection connection = Connection::memory);

/// `run_ranks` with a process for each rank of the mesh.
void run_in_processes(const WorldOptions& options, const std::function<void(Rank&)>& body,
                      Connection connection = Connection::memory);

/// Where nobody else listens.
std::uint16_t free_port();

}  // namespace heddle::test

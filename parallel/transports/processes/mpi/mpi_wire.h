// A wire of MPI, for processes that mpirun or srun started. Which MPI it is, or whether there is one, is decided when a
// program is linked (CMakeLists.txt).
#pragma once

#include <memory>

#include "parallel/transports/processes/wire.h"

namespace heddle {

/// Joins the MPI job that this process was started in. To be called once per process. Null in a program that was built
/// without MPI; RankFailed with MPI's own message if it fails to start.
std::unique_ptr<Wire> join_by_mpi();

}  // namespace heddle

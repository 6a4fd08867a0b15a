// A wire of sockets, for processes that were started without MPI: by hand, by a script or by srun, each with RANK,
// WORLD_SIZE, MASTER_ADDR and MASTER_PORT (or Open MPI's or Slurm's names for the first two).
#pragma once

#include <memory>

#include "parallel/transports/processes/launch.h"
#include "parallel/transports/processes/tcp/job_secret.h"
#include "parallel/transports/processes/tcp/rendezvous_address.h"
#include "parallel/transports/processes/wire.h"

namespace heddle {

/// Connects this process with all others of the launch. It waits for them for `timeouts.timeout`, and as long again
/// for higher ranks once all are known. RankFailed names the ranks that did not connect, or disconnected; InputError
/// says what is wrong with the launch or the address, or that these processes are not of one job. Connections of
/// programs that do not know the secret are closed, and so are those of ranks of a job with another number of ranks.
/// Afterwards no process listens any more, unless the launch is elastic.
///
/// The end of a process is noticed at once, a machine that does not answer after 60 s (tcp_socket.h).
std::unique_ptr<Wire> join_by_tcp(const Launch& launch, const RendezvousAddress& address,
                                  const RendezvousTimeouts& timeouts = {}, const JobSecret& secret = {});

}  // namespace heddle

// Ranks as processes: one rank's end of a communicator among them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "parallel/communicator/transport.h"
#include "parallel/transports/processes/progress_engine.h"

namespace heddle {

/// The communicator of these world ranks, in this order; `group` identifies it, with the same number on all of them.
std::unique_ptr<Transport> make_process_transport(ProgressEngine& engine, std::uint64_t group,
                                                  std::vector<int> members);

}  // namespace heddle

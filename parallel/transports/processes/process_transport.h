// Ranks as processes: one rank's end of the communicator of all of them.
#pragma once

#include <memory>

#include "parallel/communicator/transport.h"
#include "parallel/transports/processes/progress_engine.h"

namespace heddle {

/// The communicator of world ranks 0 .. ranks-1.
std::unique_ptr<Transport> make_process_transport(ProgressEngine& engine, int ranks);

}  // namespace heddle

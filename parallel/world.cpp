#include "parallel/world.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <thread>
#include <vector>

#include "framework/error.h"
#include "parallel/threads_transport.h"

namespace heddle {

namespace {

std::string what(const std::exception_ptr& cause) {
  try {
    std::rethrow_exception(cause);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception that is no std::exception";
  }
}

[[noreturn]] void rethrow(int rank, const std::exception_ptr& cause) {
  try {
    std::rethrow_exception(cause);
  } catch (const OutOfMemory&) {
    throw;
  } catch (const InputError&) {
    throw;
  } catch (const RankFailed&) {
    throw;
  } catch (...) {
    fail<RankFailed>("rank {} failed: {}", rank, what(cause));
  }
}

/// The life of one rank, on its own thread.
void run_rank(const WorldOptions& options, const std::function<void(Rank&)>& body, Device& device,
              std::unique_ptr<Transport> transport) {
  device.backend().enter_thread();
  const auto traffic = std::make_shared<RankTraffic>();
  const auto bytes = std::make_shared<ByteCounter>();
  traffic->hooks.push_back(bytes);
  Communicator world(std::move(transport), device, traffic);
  const int index = world.rank();
  MeshGroups groups(world, options.mesh);
  Rank rank{.index = index,
            .size = world.size(),
            .device = device,
            .world = world,
            .groups = groups,
            .mesh = options.mesh,
            .coordinates = options.mesh.coordinates(index),
            .key = options.key,
            .bytes = *bytes,
            .clock = traffic->clock};
  body(rank);
}

}  // namespace

int threads_per_rank(const WorldOptions& options) {
  if (options.threads > 0) return options.threads;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / options.mesh.size());
}

void run_ranks(const WorldOptions& options, const std::function<void(Rank&)>& body) {
  if (options.transport != "threads") fail<InputError>("transport: expected threads, got {}", options.transport);
  const int ranks = options.mesh.size();
  // Tensors may be on their way when a rank fails: the world that holds them goes before the devices.
  std::vector<std::unique_ptr<Device>> devices;
  for (int r = 0; r < ranks; ++r)
    devices.push_back(std::make_unique<Device>(
        make_backend(options.backend, threads_per_rank(options), options.winograd), r, options.memory_budget));
  ThreadsWorld world(ranks, options.timeout);
  std::vector<std::exception_ptr> causes(static_cast<std::size_t>(ranks));
  {
    std::vector<std::jthread> threads;
    const auto fails = [&](int r) {
      causes[static_cast<std::size_t>(r)] = std::current_exception();
      world.failed(r, what(std::current_exception()));
    };
    const auto live = [&](int r) {
      try {
        run_rank(options, body, *devices[static_cast<std::size_t>(r)], world.connect(r));
        world.ended(r);
      } catch (const Stopped&) {
      } catch (...) {
        fails(r);
      }
    };
    for (int r = 0; r < ranks; ++r) {
      try {
        threads.emplace_back(live, r);
      } catch (...) {
        // The system gives no more threads: those that run must not wait for one that never will.
        fails(r);
        break;
      }
    }
  }
  for (int r = 0; r < ranks; ++r)
    if (causes[static_cast<std::size_t>(r)]) rethrow(r, causes[static_cast<std::size_t>(r)]);
}

}  // namespace heddle

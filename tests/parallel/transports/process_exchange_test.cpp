// The common part of the transports between processes, over a stand-in for their wire.
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include <doctest/doctest.h>

#include "parallel/world.h"
#include "tests/support/processes/local_job.h"
#include "tests/support/ranks.h"

namespace heddle::test {

namespace {

using std::chrono::milliseconds;

TEST_CASE("data that arrive after a wait has failed are written to memory that is kept for them") {
  WorldOptions options = ranks(3);
  options.transport = "processes";
  std::atomic<const MemoryMeter*> receiver = nullptr;
  std::int64_t before = 0;  // set before the receiver is
  std::atomic<bool> has_failed = false;
  const auto body = [&](Rank& rank) {
    constexpr std::int64_t count = 100000;
    rank.world.barrier().wait();
    if (rank.index == 0) {
      before = rank.device.meter().live().total();
      receiver = &rank.device.meter();
      receiver.notify_all();
      CHECK_THROWS_AS(rank.world.recv(1).wait(), Stopped);
      CHECK(rank.device.meter().live().total() == before + 4 * count);
      has_failed = true;
      has_failed.notify_all();
    } else if (rank.index == 1) {
      Work<void> sending = rank.world.send(Tensor::zeros(rank.device, {count}, DType::f32), 0);
      // It sends what was asked for before it hears of the failure.
      has_failed.wait(false);
      sending.wait();
    } else {
      receiver.wait(nullptr);
      for (int i = 0; i < 10000 && receiver.load()->live().total() < before + 4 * count; ++i)
        std::this_thread::sleep_for(milliseconds(1));
      std::this_thread::sleep_for(milliseconds(100));  // rank 0 has the memory, and asks for the data
      throw std::runtime_error("lost");
    }
  };
  for (const Connection connection : {Connection::memory, Connection::sockets}) {
    receiver = nullptr;
    has_failed = false;
    CHECK_THROWS_WITH_AS(run_in_processes(options, body, connection), "rank 2 failed: lost", RankFailed);
  }
}

}  // namespace

}  // namespace heddle::test

// The common part of the transports between processes, over a stand-in for their wire.
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
  const auto body = [](Rank& rank) {
    constexpr std::int64_t count = 100000;
    rank.world.barrier().wait();
    if (rank.index == 0) {
      const std::int64_t before = rank.device.meter().live().total();
      CHECK_THROWS_AS(rank.world.recv(1).wait(), Stopped);
      CHECK(rank.device.meter().live().total() == before + 4 * count);
    } else if (rank.index == 1) {
      Work<void> sending = rank.world.send(Tensor::zeros(rank.device, {count}, DType::f32), 0);
      // It sends what was asked for before it hears of the failure.
      std::this_thread::sleep_for(milliseconds(400));
      sending.wait();
    } else {
      std::this_thread::sleep_for(milliseconds(200));
      throw std::runtime_error("lost");
    }
  };
  for (const Connection connection : {Connection::memory, Connection::sockets})
    CHECK_THROWS_WITH_AS(run_in_processes(options, body, connection), "rank 2 failed: lost", RankFailed);
}

}  // namespace

}  // namespace heddle::test

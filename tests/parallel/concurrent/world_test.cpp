#include "parallel/world.h"

#include <atomic>
#include <new>
#include <stdexcept>
#include <thread>

#include <doctest/doctest.h>

#include "framework/ops/rows.h"
#include "parallel/transports/transports.h"
#include "tests/support/huge_stacks.h"
#include "tests/support/message.h"
#include "tests/support/ranks.h"

namespace heddle::test::world_test {

namespace {

using test::zeros;

WorldOptions ranks(int count) {
  WorldOptions options = test::ranks(count);
  // No test waits so long: failures end the waits.
  options.timeout = std::chrono::minutes(10);
  return options;
}

}  // namespace

TEST_CASE("every rank has its own thread, device, coordinates and communicators") {
  WorldOptions options = ranks(1);
  options.mesh = Mesh(2, 1, 2);
  options.key = {.seed = 7};
  std::atomic<int> bodies = 0;
  run_ranks(options, [&](Rank& rank) {
    ++bodies;
    CHECK(rank.size == 4);
    CHECK(rank.device.rank() == rank.index);
    CHECK(rank.device.backend().name() == test::tested_backend());
    CHECK(rank.world.rank() == rank.index);
    CHECK(rank.coordinates == options.mesh.coordinates(rank.index));
    CHECK(rank.along(Axis::dp).size() == 2);
    CHECK(rank.along(Axis::dp).rank() == rank.coordinates.dp);
    CHECK(rank.key.seed == 7);
    const Tensor total = rank.along(Axis::dp).all_reduce(Tensor::full(rank.device, {1}, DType::f32, rank.index));
    CHECK(total.item() == (rank.coordinates.tp == 0 ? 0 + 2 : 1 + 3));
    CHECK(rank.bytes.sent_bytes() == 4);
  });
  CHECK(bodies == 4);
}

TEST_CASE("a rank for which the system starts no thread is out of memory, and says so plainly") {
  std::string error;
  {
    const HugeStacks no_threads;
    error = message_of<OutOfMemory>([] { run_ranks(ranks(2), [](Rank& /*rank*/) {}); });
  }
  CHECK(error ==
        "rank 0: out of memory: the system cannot start a thread for it, perhaps because of a limit (ulimit -v, ulimit "
        "-u): "
        "Resource temporarily unavailable");
}

TEST_CASE("a rank whose own data find no memory is out of memory") {
  const auto body = [](Rank& rank) {
    if (rank.index == 1) throw std::bad_alloc();
    rank.world.recv(1).wait();
  };
  CHECK(message_of<OutOfMemory>([&] { run_ranks(ranks(2), body); }) ==
        "out of memory: the system has no memory for a rank's own data");
}

TEST_CASE("cores are divided among the ranks, with at least one thread each") {
  WorldOptions options;
  options.mesh = Mesh(100000);
  CHECK(threads_per_rank(options) == 1);
  options.backend_options.threads = 3;
  CHECK(threads_per_rank(options) == 3);
}

TEST_CASE("a rank that throws is named, and ends the waits of the others") {
  std::atomic<int> stopped = 0;
  const auto body = [&](Rank& rank) {
    if (rank.index == 2) throw std::runtime_error("a simulated failure");
    try {
      // One waits for its sums, one for a message, one for its message to be taken.
      if (rank.index == 0) rank.world.all_reduce(zeros(rank, 4)).wait();
      if (rank.index == 1) rank.world.recv(2).wait();
      if (rank.index == 3) rank.world.send(zeros(rank, 4), 2).wait();
    } catch (const Stopped& error) {
      ++stopped;
      if (rank.index == 0)
        CHECK(std::string(error.what()) ==
              "rank 0, call 2: all_reduce(sum) f32[4]: stopped, because rank 2 failed: a simulated failure");
      throw;
    }
  };
  CHECK_THROWS_WITH_AS(run_ranks(ranks(4), body), "rank 2 failed: a simulated failure", RankFailed);
  CHECK(stopped == 3);
}

TEST_CASE("a rank that fails while tensors are on their way leaves nothing behind") {
  const auto body = [](Rank& rank) {
    Work<void> sending = rank.world.send(zeros(rank, 100), (rank.index + 1) % 3);
    Work<Tensor> started = rank.world.all_reduce(zeros(rank, 100));
    if (rank.index == 1) throw std::runtime_error("lost");
    started.wait();
    sending.wait();
  };
  CHECK_THROWS_WITH_AS(run_ranks(ranks(3), body), "rank 1 failed: lost", RankFailed);
}

TEST_CASE("out of memory stays out of memory, wrong input stays wrong input") {
  WorldOptions options = ranks(2);
  options.memory_budget = 1024;
  const auto hungry = [](Rank& rank) {
    if (rank.index == 1) zeros(rank, 1000);
    rank.world.barrier().wait();
  };
  CHECK_THROWS_WITH_AS(run_ranks(options, hungry),
                       "rank 1: out of memory: asked for 3.91 KiB of activations, holds 0 B of its budget of 1.00 KiB "
                       "(parameters 0 B, gradients 0 B, optimizer 0 B, activations 0 B, workspace 0 B, communication 0 "
                       "B)",
                       OutOfMemory);
  const auto wrong = [](Rank& rank) {
    if (rank.index == 1) throw InputError("data.path: expected a folder, got a file");
    rank.world.barrier().wait();
  };
  CHECK_THROWS_WITH_AS(run_ranks(ranks(2), wrong), "data.path: expected a folder, got a file", InputError);
}

TEST_CASE("an error of a rank at its very end is reported, though the rank reads no result of it") {
  const WorldOptions options = ranks(2);
  const auto body = [](Rank& rank) {
    const Tensor sum = rank.world.all_reduce(Tensor::full(rank.device, {4, 1}, DType::f32, 1));
    const std::vector<std::int64_t> index{rank.index == 1 ? 9 : 3};
    (void)gather_rows(Variable(sum), Tensor::from_host(rank.device, {1}, index));
  };
  CHECK_THROWS_WITH_AS(run_ranks(options, body), "gather_rows: index 9 at position 0 is outside the 4 rows",
                       InputError);
}

TEST_CASE("if several ranks fail, the failure of the lowest one is reported") {
  std::atomic<int> ready = 0;
  const auto body = [&](Rank& rank) {
    ++ready;
    while (ready < 3) std::this_thread::yield();
    throw std::runtime_error(fmt::format("cause {}", rank.index));
  };
  // All ranks are past the set-up of their communicators when the first throws.
  const auto meet_first = [&](Rank& rank) {
    rank.world.barrier().wait();
    body(rank);
  };
  CHECK_THROWS_WITH_AS(run_ranks(ranks(3), meet_first), "rank 0 failed: cause 0", RankFailed);
}

TEST_CASE("an exception of any kind is a failure") {
  CHECK_THROWS_WITH_AS(run_ranks(ranks(1), [](Rank&) { throw 3; }),
                       "rank 0 failed: an exception that is not a std::exception", RankFailed);
}

TEST_CASE("a rank that neither waits nor ends is reported once the others have given up") {
  WorldOptions options = ranks(3);
  options.timeout = std::chrono::milliseconds(100);
  options.patience = std::chrono::milliseconds(50);
  std::atomic<bool> is_told = false;
  std::string reported;
  options.on_stall = [&](const std::string& why) {
    reported = why;
    is_told = true;
  };
  const auto body = [&](Rank& rank) {
    rank.world.barrier().wait();
    if (rank.index == 0) rank.world.recv(1).wait();
    while (rank.index == 1 && !is_told) std::this_thread::yield();
  };
  const std::string late = "rank 0, message 1: recv from rank 1: timed out after 0.1 s waiting for rank 1";
  CHECK_THROWS_WITH_AS(run_ranks(options, body), late.c_str(), RankFailed);
  CHECK(reported == "rank 0 failed: " + late + "; rank 1 did not end within 0.05 s after that");
}

TEST_CASE("more ranks than cores sleep instead of spinning, and still meet") {
  run_ranks(ranks(16), [](Rank& rank) {
    for (int i = 0; i < 20; ++i) {
      const Tensor total = rank.world.all_reduce(Tensor::full(rank.device, {3}, DType::f64, 1));
      CHECK(total.to_doubles() == std::vector<double>(3, 16));
    }
  });
}

TEST_CASE("ranks that outnumber the cores cost no CPU time while they wait") {
  const int count = 2 * static_cast<int>(std::thread::hardware_concurrency()) + 1;
  run_ranks(ranks(count), [](Rank& rank) {
    const RankClock everything;
    const double begin = everything.busy_seconds();
    if (rank.index == 0) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    rank.world.barrier().wait();
    CHECK(everything.busy_seconds() - begin < 0.1);
  });
}

TEST_CASE("a thread's CPU time within communicators is not computing") {
  RankClock everything;
  RankClock computing;
  {
    const Communicating communicating(computing);
    const double begin = everything.busy_seconds();
    while (everything.busy_seconds() < begin + 0.01) continue;
  }
  CHECK(everything.busy_seconds() - computing.busy_seconds() >= 0.01 - 0.001);
}

TEST_CASE("busy is the time outside communicators, and only CPU time where ranks share cores") {
  const auto busy_of_a_nap = [](int count) {
    double busy = 0;
    run_ranks(ranks(count), [&](Rank& rank) {
      const double begin = rank.clock.busy_seconds();
      if (rank.index == 0) std::this_thread::sleep_for(std::chrono::milliseconds(200));
      if (rank.index == 0) busy = rank.clock.busy_seconds() - begin;
    });
    return busy;
  };
  CHECK(busy_of_a_nap(1) >= 0.2);
  CHECK(busy_of_a_nap(2 * static_cast<int>(std::thread::hardware_concurrency())) < 0.1);
}

TEST_CASE("every device has a transport for threads and one for processes") {
  for (const std::string_view device : {"cpu", "cuda", "plan"}) {
    CAPTURE(device);
    int among_threads = 0;
    for (const TransportType& type : transport_types())
      if (!type.needs_job && type.moves_memory_of(device)) ++among_threads;
    CHECK(among_threads == 1);
    CHECK(transport_of_jobs(device).needs_job);
    CHECK(transport_of_jobs(device).moves_memory_of(device));
  }
  CHECK(transport_of_jobs("cpu").name == "processes");
  CHECK(transport_of_jobs("cuda").name == "nccl");
}

TEST_CASE("transports are found by their present names only") {
  for (const TransportType& type : transport_types()) CHECK(&transport_type(type.name) == &type);
  CHECK_THROWS_WITH_AS(transport_type("mpi"), "transport: expected one of threads, processes, nccl, got mpi",
                       InputError);
}

TEST_CASE("a transport that does not exist is an error that lists the known ones") {
  WorldOptions options = ranks(2);
  options.transport = "unknown";
  CHECK_THROWS_WITH_AS(run_ranks(options, [](Rank&) {}),
                       "transport: expected one of threads, processes, nccl, got unknown", InputError);
}

}  // namespace heddle::test::world_test

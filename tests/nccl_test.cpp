// The transport nccl: what it asks of NCCL, and how it ends when NCCL or a rank fails. NCCL and the processes are
// stand-ins; the suite of the transports runs over them with HEDDLE_TEST_TRANSPORT=nccl.
#include "parallel/nccl/nccl.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <stdexcept>
#include <thread>

#include <doctest/doctest.h>

#include "framework/gpu.h"
#include "parallel/processes.h"
#include "parallel/world.h"
#include "tests/support/local_job.h"
#include "tests/support/nccl_on_host.h"
#include "tests/support/ranks.h"
#include "tests/support/traffic.h"

namespace heddle::test {

namespace {

using Counts = NcclOnHost::Counts;
using Fault = NcclOnHost::Fault;
using std::chrono::milliseconds;

WorldOptions on_nccl(int count, NcclOnHost& nccl) {
  WorldOptions options = ranks(count);
  options.transport = "nccl";
  options.nccl = &nccl;
  return options;
}

/// More than travels with words.
Tensor large(Rank& rank, std::int64_t count = 30000, double value = 1) {
  return Tensor::full(rank.device, {count}, DType::f32, value);
}

Counts counts_of(int count, const std::function<void(Rank&)>& body) {
  NcclOnHost nccl;
  run_in_processes(on_nccl(count, nccl), body);
  CHECK(nccl.is_clean());
  return nccl.counts();
}

/// All ends of communicators must have been aborted; at least one must have been there.
void fails(NcclOnHost& nccl, const WorldOptions& options, const std::function<void(Rank&)>& body,
           const std::string& expected) {
  CHECK_THROWS_WITH_AS(run_in_processes(options, body), expected.c_str(), RankFailed);
  CHECK(nccl.is_clean());
  CHECK(nccl.counts().aborted > 0);
}

TEST_CASE("nccl: elements of every size arrive, and reductions have the bits of threads") {
  // Around what travels with words, and more.
  for (const int count : {2, 3, 4})
    for (const std::int64_t size : {0, 1, 2048, 2049, 4100, 8200, 24603, 300001}) {
      if (size > 100000 && count != 3) continue;
      for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
        if (size > 10000 && dtype != DType::f32) continue;
        CAPTURE(count);
        CAPTURE(size);
        std::vector<std::vector<std::byte>> of_threads(static_cast<std::size_t>(count));
        run_ranks(ranks(count),
                  [&](Rank& rank) { of_threads[static_cast<std::size_t>(rank.index)] = traffic(rank, size, dtype); });
        NcclOnHost nccl;
        run_in_processes(on_nccl(count, nccl), [&](Rank& rank) {
          CHECK((traffic(rank, size, dtype) == of_threads[static_cast<std::size_t>(rank.index)]));
        });
        CHECK(nccl.is_clean());
        CHECK(nccl.counts().aborted == 0);
        if (size <= 1) CHECK(nccl.counts().communicators == 0);
        if (size > 2049) CHECK(nccl.counts().communicators > 0);
      }
    }
}

TEST_CASE("nccl: rows that one rank has for itself are reduced in as many pieces as they take") {
  constexpr std::int64_t rows = 3000000;
  counts_of(3, [](Rank& rank) {
    const std::vector<std::int64_t> to_last{0, 1, rows - 1};
    const Tensor sum = rank.world.reduce_scatter(large(rank, rows, rank.index + 1), to_last);
    CHECK(sum.numel() == to_last[static_cast<std::size_t>(rank.index)]);
    const std::vector<double> values = sum.to_doubles();
    CHECK(std::count(values.begin(), values.end(), 6) == sum.numel());
  });
}

TEST_CASE("nccl: small tensors travel with words, and no communicator is made for them") {
  CHECK(counts_of(3, [](Rank& rank) {
          rank.world.barrier().wait();
          CHECK(rank.world.all_reduce(large(rank, 2000)).wait().to_doubles()[1999] == 3);
          CHECK(rank.world.exchange(large(rank, 2000), (rank.index + 1) % 3, (rank.index + 2) % 3).wait().numel() ==
                2000);
        }) == Counts{});
}

TEST_CASE("nccl: a group has one communicator, and each step of a collective is one call") {
  const auto calls = [](const std::function<void(Rank&)>& body) {
    Counts counts = counts_of(3, body);
    CHECK(counts.communicators == 3);
    CHECK(counts.closed == 3);
    return Counts{.all_gathers = counts.all_gathers, .broadcasts = counts.broadcasts, .exchanges = counts.exchanges};
  };
  CHECK(calls([](Rank& rank) { (void)rank.world.all_gather(large(rank)).wait(); }) == Counts{.all_gathers = 3});
  CHECK(calls([](Rank& rank) { (void)rank.world.all_gather(large(rank, 30000 + rank.index)).wait(); }) ==
        Counts{.exchanges = 3});
  CHECK(calls([](Rank& rank) { (void)rank.world.broadcast(large(rank), 1).wait(); }) == Counts{.broadcasts = 3});
  CHECK(calls([](Rank& rank) { (void)rank.world.all_reduce(large(rank)).wait(); }) ==
        Counts{.all_gathers = 3, .exchanges = 3});
  CHECK(calls([](Rank& rank) { (void)rank.world.all_reduce(large(rank, 30001)).wait(); }) == Counts{.exchanges = 6});
  CHECK(calls([](Rank& rank) { (void)rank.world.reduce(large(rank), 2).wait(); }) == Counts{.exchanges = 6});
  CHECK(calls([](Rank& rank) {
          for (int i = 0; i < 5; ++i) (void)rank.world.gather(large(rank), 0).wait();
        }) == Counts{.exchanges = 15});
}

TEST_CASE("nccl: messages of a pair share a communicator, one for each direction, and may cross") {
  const Counts counts = counts_of(2, [](Rank& rank) {
    std::vector<Work<Tensor>> exchanges;
    for (int i = 0; i < 6; ++i)
      exchanges.push_back(rank.world.exchange(large(rank, 3000, rank.index + i), 1 - rank.index));
    for (int i = 5; i >= 0; --i)
      CHECK(exchanges[static_cast<std::size_t>(i)].wait().to_doubles()[2999] == 1 - rank.index + i);
  });
  CHECK(counts == Counts{.communicators = 4, .closed = 4, .exchanges = 24});
}

TEST_CASE("nccl: a rank that fails ends the others, and all abort their communicators") {
  NcclOnHost nccl;
  fails(
      nccl, on_nccl(3, nccl),
      [](Rank& rank) {
        (void)rank.world.all_reduce(large(rank)).wait();
        if (rank.index == 2) throw std::runtime_error("no more thread on the bobbin");
        (void)rank.world.all_reduce(large(rank)).wait();
      },
      "rank 2 failed: no more thread on the bobbin");
  CHECK(nccl.counts().aborted == 3);
  CHECK(nccl.counts().closed == 0);
}

TEST_CASE("nccl: a receive that is under way when its sender fails is aborted") {
  NcclOnHost nccl;
  fails(
      nccl, on_nccl(2, nccl),
      [](Rank& rank) {
        if (rank.index == 1) (void)rank.world.recv(0).wait();
        const Work<void> sending = rank.world.send(large(rank), 1);
        // Until the receiver waits for what never is sent.
        std::this_thread::sleep_for(milliseconds(200));
        throw std::runtime_error("no more thread on the bobbin");
      },
      "rank 0 failed: no more thread on the bobbin");
  CHECK(nccl.counts() == Counts{.communicators = 1, .aborted = 1, .exchanges = 0});
}

TEST_CASE("nccl: what NCCL finds wrong ends all ranks, with the call of the rank that found it") {
  NcclOnHost nccl;
  nccl.set_fault({.ranks = 3, .rank = 1, .kind = Fault::Kind::error});
  fails(
      nccl, on_nccl(3, nccl),
      [](Rank& rank) {
        rank.world.barrier().wait();
        (void)rank.world.all_gather(large(rank)).wait();
      },
      "rank 1, call 3: all_gather f32[30000]: NCCL: unhandled system error");
  nccl.set_fault({.ranks = 2, .rank = 0, .kind = Fault::Kind::error});
  fails(
      nccl, on_nccl(3, nccl),
      [](Rank& rank) {
        if (rank.index == 2) rank.world.send(large(rank), 0).wait();
        if (rank.index == 0) (void)rank.world.recv(2).wait();
        if (rank.index == 1) rank.world.barrier().wait();
      },
      "rank 2, message 1: send to rank 0 f32[30000]: NCCL: unhandled system error");
}

TEST_CASE("nccl: elements that never arrive end by the timeout") {
  NcclOnHost nccl;
  nccl.set_fault({.ranks = 2, .kind = Fault::Kind::no_end});
  WorldOptions options = on_nccl(2, nccl);
  options.timeout = milliseconds(300);
  fails(
      nccl, options,
      [](Rank& rank) {
        if (rank.index == 0) rank.world.send(large(rank), 1).wait();
        if (rank.index == 1) (void)rank.world.recv(0).wait();
      },
      "rank 0, message 1: send to rank 1 f32[30000]: rank 1 did not come within 0.3 s");
}

TEST_CASE("nccl: of a group that waits for one rank's elements, that rank is named") {
  NcclOnHost nccl;
  nccl.set_fault({.ranks = 4, .rank = 2, .kind = Fault::Kind::nap, .nap = milliseconds(2500)});
  WorldOptions options = on_nccl(4, nccl);
  options.timeout = milliseconds(600);
  const std::string error = message_of(
      [&] { run_in_processes(options, [](Rank& rank) { (void)rank.world.reduce_scatter(large(rank)).wait(); }); });
  CHECK(
      error.find(", call 2: reduce_scatter(sum) f32[7500], f32[7500], f32[7500], f32[7500]: rank 2 did not come within "
                 "0.6 s") != std::string::npos);
  CHECK(nccl.counts().aborted == 4);
}

TEST_CASE("nccl: after a failure the next section begins anew, with other communicators") {
  NcclOnHost nccl;
  in_processes(2, [&](Processes& job) {
    WorldOptions options = on_nccl(2, nccl);
    options.processes = &job;
    const auto lost = [](Rank& rank) {
      Work<void> sending = rank.world.send(large(rank), 1 - rank.index);
      (void)rank.world.all_reduce(large(rank)).wait();
      if (rank.index == 1) throw std::runtime_error("lost");
      (void)rank.world.recv(1).wait();
      sending.wait();
    };
    const auto sound = [](Rank& rank) {
      CHECK(rank.world.all_reduce(large(rank)).wait().to_doubles()[29999] == 2);
      CHECK(rank.world.exchange(large(rank, 30000, rank.index), 1 - rank.index).wait().to_doubles()[0] ==
            1 - rank.index);
    };
    for (int i = 0; i < 3; ++i) {
      CHECK_THROWS_WITH_AS(run_ranks(options, lost), "rank 1 failed: lost", RankFailed);
      run_ranks(options, sound);
    }
  });
  CHECK(nccl.is_clean());
  CHECK(nccl.counts().closed == 3 * 6);
}

TEST_CASE("nccl: a circle of waits is told, though elements could move") {
  NcclOnHost nccl;
  CHECK_THROWS_WITH_AS(
      run_in_processes(on_nccl(2, nccl),
                       [](Rank& rank) {
                         Communicator other = rank.world.split(0);
                         Work<Tensor> first =
                             rank.index == 0 ? rank.world.all_gather(large(rank)) : other.all_gather(large(rank));
                         Work<Tensor> second =
                             rank.index == 0 ? other.all_gather(large(rank)) : rank.world.all_gather(large(rank));
                         (void)first.wait();
                         (void)second.wait();
                       }),
      "deadlock: rank 0, call 3: all_gather f32[30000] waits for rank 1; rank 1, call 1: all_gather f32[30000] waits "
      "for rank 0",
      RankFailed);
}

TEST_CASE("nccl: what it cannot run on is wrong input") {
  WorldOptions options = ranks(2, "cpu");
  options.transport = "nccl";
  CHECK_THROWS_WITH_AS(run_ranks(options, [](Rank&) {}),
                       "transport: nccl needs one process a rank: start it with mpirun -n 2", InputError);
  CHECK_THROWS_WITH_AS(run_in_processes(options, [](Rank&) {}),
                       "transport: nccl moves what GPUs hold: expected device cuda, got cpu", InputError);
  // Without data there is nothing to move, and no GPU is asked for.
  options.backend = "plan";
  run_in_processes(options, [](Rank& rank) { CHECK(rank.world.all_reduce(large(rank)).wait().numel() == 30000); });
}

TEST_CASE("nccl: more ranks on a machine than it has GPUs are wrong input") {
  const int gpus = cuda_gpus();
  if (gpus == 0 || std::getenv("CUDA_VISIBLE_DEVICES") != nullptr) return;
  NcclOnHost nccl;
  WorldOptions options = on_nccl(gpus + 1, nccl);
  options.backend = "cuda";
  CHECK_THROWS_WITH_AS(
      run_in_processes(options, [](Rank&) {}),
      fmt::format("transport nccl: each rank needs a GPU of its own, and this machine has {} of the job's ranks and {} "
                  "GPU{} (several ranks on one GPU: transport threads)",
                  gpus + 1, gpus, gpus == 1 ? "" : "s")
          .c_str(),
      InputError);
}

}  // namespace

}  // namespace heddle::test

// The transport nccl: failures of NCCL or of a rank, and devices that it does not support.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <thread>

#include <doctest/doctest.h>

#include "framework/backends/gpu.h"
#include "parallel/transports/join_job.h"
#include "parallel/transports/processes/job.h"
#include "parallel/world.h"
#include "tests/support/environment_variable.h"
#include "tests/support/message.h"
#include "tests/support/processes/on_nccl.h"

namespace heddle::test {

namespace {

using Counts = NcclOnHost::Counts;
using Fault = NcclOnHost::Fault;
using std::chrono::milliseconds;

/// All ends of communicators must have been aborted; at least one must have been there.
void fails(NcclOnHost& nccl, const WorldOptions& options, const std::function<void(Rank&)>& body,
           const std::string& expected) {
  CHECK_THROWS_WITH_AS(run_in_processes(options, body), expected.c_str(), RankFailed);
  CHECK(nccl.is_clean());
  CHECK(nccl.counts().aborted > 0);
}

TEST_CASE("nccl: a rank that fails ends the others, and all abort their communicators") {
  NcclOnHost nccl;
  fails(
      nccl, on_nccl(3, nccl),
      [](Rank& rank) {
        (void)rank.world.all_reduce(large(rank)).wait();
        if (rank.index == 2) throw std::runtime_error("a simulated failure");
        (void)rank.world.all_reduce(large(rank)).wait();
      },
      "rank 2 failed: a simulated failure");
  CHECK(nccl.counts().aborted == 3);
  CHECK(nccl.counts().closed == 0);
}

TEST_CASE("nccl: a receive that is under way when its sender fails is aborted") {
  NcclOnHost nccl;
  std::atomic<bool> has_started = false;
  const auto until = [](const auto& condition) {
    for (int i = 0; i < 60'000 && !condition(); ++i) std::this_thread::sleep_for(milliseconds(1));
  };
  fails(
      nccl, on_nccl(2, nccl),
      [&](Rank& rank) {
        if (rank.index == 1) {
          (void)rank.world.recv(0).wait();
          until([&] { return has_started.load(); });  // a sender whose receiver is there would send at once
          (void)rank.world.recv(0).wait();
        }
        rank.world.send(large(rank), 1).wait();
        const Work<void> sending = rank.world.send(large(rank), 1);
        has_started = true;
        // Until the receiver is within its second call of NCCL, for a message that is never sent.
        until([&] { return nccl.counts().exchanges == 3; });
        throw std::runtime_error("a simulated failure");
      },
      "rank 0 failed: a simulated failure");
  CHECK(nccl.counts() == Counts{.communicators = 2, .aborted = 2, .exchanges = 3});
}

TEST_CASE("nccl: an error of NCCL ends all ranks, with the call of the rank that found it") {
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
        if (rank.index != 2) rank.world.barrier().wait();  // they are there when rank 2 fails
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
      "rank 0, message 1: send to rank 1 f32[30000]: timed out after 0.3 s waiting for rank 1");
}

TEST_CASE("nccl: a rank's communicators with calls under way are aborted at the same time") {
  NcclOnHost nccl;
  WorldOptions options = on_nccl(3, nccl);
  options.timeout = milliseconds(500);
  const std::string error = message_of([&] {
    run_in_processes(options, [&](Rank& rank) {
      const auto pass_on = [&rank] {
        (void)rank.world.exchange(large(rank), (rank.index + 1) % 3, (rank.index + 2) % 3).wait();
        rank.world.barrier().wait();
      };
      pass_on();
      nccl.set_fault({.ranks = 2, .kind = Fault::Kind::no_end});
      pass_on();
    });
  });
  CHECK(error.find("timed out after 0.5 s waiting for rank") != std::string::npos);
  CHECK(nccl.counts().aborted == 6);
  CHECK(nccl.is_clean());
}

TEST_CASE("nccl: if a group waits for one rank's elements, that rank is named") {
  NcclOnHost nccl;
  nccl.set_fault({.ranks = 4, .rank = 2, .kind = Fault::Kind::nap, .nap = milliseconds(2500)});
  WorldOptions options = on_nccl(4, nccl);
  options.timeout = milliseconds(600);
  const std::string error = message_of(
      [&] { run_in_processes(options, [](Rank& rank) { (void)rank.world.reduce_scatter(large(rank)).wait(); }); });
  CHECK(error.find(", call 2: reduce_scatter(sum) f32[7500], f32[7500], f32[7500], f32[7500]: timed out after 0.6 s "
                   "waiting for rank 2") != std::string::npos);
  CHECK(nccl.counts().aborted == 4);
}

TEST_CASE("nccl: after a failure the next section starts with new communicators") {
  NcclOnHost nccl;
  in_processes(2, [&](Job& job) {
    WorldOptions options = on_nccl(2, nccl);
    options.job = &job;
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

TEST_CASE("nccl: a cycle of waits is reported, though elements could move") {
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

TEST_CASE("nccl: devices that it does not support are wrong input") {
  WorldOptions options = ranks(2, "cpu");
  options.transport = "nccl";
  CHECK_THROWS_WITH_AS(run_ranks(options, [](Rank&) {}),
                       "transport nccl: it needs one process per rank: start it with mpirun -n 2", InputError);
  CHECK_THROWS_WITH_AS(run_in_processes(options, [](Rank&) {}),
                       "transport nccl: expected device cuda, got cpu: NCCL moves GPU memory only", InputError);
  // Without data there is nothing to move, and no GPU is asked for.
  options.backend = "plan";
  run_in_processes(options, [](Rank& rank) { CHECK(rank.world.all_reduce(large(rank)).wait().numel() == 30000); });
}

TEST_CASE("nccl: two ranks on one GPU are wrong input, on all ranks") {
  NcclOnHost nccl;
  nccl.share_gpu(0, 2);
  CHECK_THROWS_WITH_AS(run_in_processes(on_nccl(4, nccl), [](Rank& rank) { rank.world.barrier().wait(); }),
                       "transport nccl: ranks 0 and 2 have the same GPU, 0000:00:00.0 of node1: each rank needs one of "
                       "its own, by CUDA_VISIBLE_DEVICES and LOCAL_RANK (several ranks on one GPU: transport threads)",
                       InputError);
  CHECK(nccl.counts() == Counts{});
}

TEST_CASE("an invalid LOCAL_RANK is wrong input") {
  const EnvironmentVariable rank("RANK", "1");
  const EnvironmentVariable size("WORLD_SIZE", "2");
  const EnvironmentVariable host("MASTER_ADDR", "127.0.0.1");
  const EnvironmentVariable port("MASTER_PORT", "29500");
  for (const char* const place : {"-1", "first", "1 ", ""}) {
    const EnvironmentVariable local("LOCAL_RANK", place);
    const std::string expected = fmt::format("LOCAL_RANK: expected a number from 0 on, got '{}'", place);
    CHECK_THROWS_WITH_AS(launch_of_environment(), expected.c_str(), InputError);
  }
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

// The transport nccl: its calls of NCCL, and their order. NCCL and the processes are stand-ins; the suite of the
// transports runs over them with HEDDLE_TEST_TRANSPORT=nccl.
#include "parallel/transports/processes/nccl/nccl.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <random>
#include <thread>

#include <doctest/doctest.h>

#include "parallel/transports/processes/job.h"
#include "parallel/world.h"
#include "tests/support/processes/on_nccl.h"
#include "tests/support/processes/traffic.h"

namespace heddle::test {

namespace {

using Counts = NcclOnHost::Counts;
using Fault = NcclOnHost::Fault;
using std::chrono::milliseconds;

TEST_CASE("nccl: elements of every size arrive, and reductions have the bits of threads") {
  // Around what travels with words, and more.
  for (const int count : {2, 3, 4})
    for (const std::int64_t size : {0, 1, 2048, 2049, 4100, 8200, 24603, 300001}) {
      if ((size > 100000 || (is_sanitized && size > 4100)) && count != 3) continue;
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

TEST_CASE("nccl: small tensors travel within control messages, and no communicator is made for them") {
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

TEST_CASE("nccl: messages of a pair share one communicator for each direction, and may cross") {
  const Counts counts = counts_of(2, [](Rank& rank) {
    std::vector<Work<Tensor>> exchanges;
    for (int i = 0; i < 6; ++i)
      exchanges.push_back(rank.world.exchange(large(rank, 3000, rank.index + i), 1 - rank.index));
    for (int i = 5; i >= 0; --i)
      CHECK(exchanges[static_cast<std::size_t>(i)].wait().to_doubles()[2999] == 1 - rank.index + i);
  });
  CHECK(counts == Counts{.communicators = 4, .closed = 4, .exchanges = 24});
}

TEST_CASE("nccl: ranks for which nothing moves in a group's first call join its communicator, too") {
  const auto first = [](const std::function<void(Rank&)>& call) {
    NcclOnHost nccl;
    WorldOptions options = on_nccl(3, nccl);
    options.timeout = std::chrono::seconds(5);
    run_in_processes(options, [&](Rank& rank) {
      call(rank);
      CHECK(rank.world.all_reduce(large(rank)).wait().to_doubles()[29999] == 3);
      if (rank.index == 0) rank.world.send(large(rank), 1).wait();
      if (rank.index == 1) CHECK(rank.world.recv(0).wait().numel() == 30000);
    });
    CHECK(nccl.is_clean());
    CHECK(nccl.counts().closed == 3 + 2);
  };
  first([](Rank& rank) {
    const std::vector<Tensor> gathered = rank.world.gather(large(rank, rank.index == 1 ? 0 : 30000), 0);
    if (rank.index == 0) CHECK(gathered[2].to_doubles()[29999] == 1);
  });
  first([](Rank& rank) {
    const std::vector<Tensor> parts{large(rank, 7), large(rank), large(rank, 0)};
    CHECK(rank.world.scatter(parts, 0).wait().numel() == parts[static_cast<std::size_t>(rank.index)].numel());
  });
  first([](Rank& rank) {
    const std::vector<std::int64_t> to_last{0, 0, 30000};
    CHECK(rank.world.reduce_scatter(large(rank), to_last).wait().numel() == (rank.index == 2 ? 30000 : 0));
  });
}

TEST_CASE("nccl: messages of all pairs and collectives of all groups may begin together") {
  constexpr int count = 4;
  const Counts counts = counts_of(count, [](Rank& rank) {
    const auto at = [&](int distance) { return (rank.index + distance + count) % count; };
    const auto is_from = [](const Tensor& x, int other) { return x.to_doubles()[29999] == other; };
    const Tensor mine = large(rank, 30000, rank.index);
    Communicator half = rank.world.split(rank.index % 2);
    std::vector<Work<void>> sends;
    for (const int distance : {1, 2, 3}) sends.push_back(rank.world.send(mine, at(distance)));
    // Some receive before they come to what the others wait for, some after.
    if (rank.index % 2 == 0) CHECK(is_from(rank.world.recv(at(-1)), at(-1)));
    Work<Tensor> sum = rank.world.all_reduce(mine);
    Work<Tensor> both = half.all_gather(mine);
    if (rank.index < 2) CHECK(is_from(rank.world.recv(at(2)), at(2)));
    CHECK(sum.wait().to_doubles()[7] == 6);
    if (rank.index % 2 == 1) CHECK(is_from(rank.world.recv(at(-1)), at(-1)));
    CHECK(is_from(both.wait(), rank.index % 2));
    CHECK(is_from(rank.world.recv(at(1)), at(1)));
    if (rank.index >= 2) CHECK(is_from(rank.world.recv(at(2)), at(2)));
    for (Work<void>& send : sends) send.wait();
  });
  CHECK(counts.communicators == count + 2 * 2 + 2 * count * (count - 1));
  CHECK(counts.aborted == 0);
}

TEST_CASE("nccl: a communicator begins only when nothing moves on its GPUs, and nothing moves until it is there") {
  NcclOnHost nccl;
  run_in_processes(on_nccl(4, nccl), [&](Rank& rank) {
    Communicator three = rank.world.split(rank.index / 3);
    const auto sum = [&] { return three.all_reduce(large(rank)).wait().to_doubles()[29999]; };
    if (rank.index < 3) CHECK(sum() == 3);
    rank.world.barrier().wait();
    // While two ranks wait for the third within a call, a message to one of them creates a communicator, before all
    // three come to the next call.
    nccl.set_fault({.ranks = 3, .rank = 2, .kind = Fault::Kind::nap, .nap = milliseconds(100)});
    if (rank.index == 3) CHECK(rank.world.recv(0).wait().numel() == 30000);
    std::optional<Work<void>> sending;
    if (rank.index == 0) sending.emplace(rank.world.send(large(rank), 3));
    for (int i = 0; rank.index < 3 && i < 3; ++i) CHECK(sum() == 3);
    if (sending) sending->wait();
  });
  CHECK(nccl.is_clean());
  CHECK(nccl.counts().closed == 3 + 2);
}

TEST_CASE("nccl: communicators are created in whatever order ranks request them") {
  for (unsigned seed = 0; seed < fewer_if_sanitized(30u, 10u); ++seed) {
    CAPTURE(seed);
    NcclOnHost nccl;
    WorldOptions options = on_nccl(4, nccl);
    options.timeout = std::chrono::seconds(10);
    run_in_processes(options, [&](Rank& rank) {
      std::minstd_rand delays(1 + seed * 4 + static_cast<unsigned>(rank.index));
      const auto tarry = [&] { std::this_thread::sleep_for(std::chrono::microseconds(delays() % 1500)); };
      std::mt19937 alike(seed);
      Communicator half = rank.world.split(rank.index % 2);
      for (int i = 0; i < 12; ++i) {
        const auto distance = static_cast<int>(alike() % 3 + 1);
        const int from = (rank.index + 4 - distance) % 4;
        tarry();
        Work<Tensor> passed = rank.world.exchange(large(rank, 30000, rank.index), (rank.index + distance) % 4, from);
        std::optional<Work<Tensor>> sum;
        if (alike() % 2 == 0) sum.emplace((alike() % 2 == 0 ? half : rank.world).all_reduce(large(rank)));
        tarry();
        const bool comes_first = alike() % 2 == 0;
        if (sum && comes_first) CHECK(sum->wait().to_doubles()[0] >= 2);
        CHECK(passed.wait().to_doubles()[29999] == from);
        if (sum && !comes_first) CHECK(sum->wait().to_doubles()[0] >= 2);
      }
    });
    CHECK(nccl.is_clean());
    CHECK(nccl.counts().aborted == 0);
  }
}

TEST_CASE("nccl: a communicator that takes long to be created is not reported as a cycle of waits") {
  NcclOnHost nccl;
  nccl.set_fault({.ranks = 2, .rank = 0, .kind = Fault::Kind::slow, .nap = milliseconds(1500)});
  WorldOptions options = on_nccl(3, nccl);
  options.timeout = milliseconds(1000);
  run_in_processes(options, [](Rank& rank) {
    // The sender waits for the receiver in another call.
    if (rank.index == 1) CHECK(rank.world.recv(0).wait().numel() == 30000);
    Work<Tensor> sum = rank.world.all_reduce(large(rank));
    if (rank.index != 0) return (void)sum.wait();
    Work<void> sending = rank.world.send(large(rank), 1);
    (void)sum.wait();
    sending.wait();
  });
  nccl.set_fault({.ranks = 3, .rank = 2, .kind = Fault::Kind::slow, .nap = milliseconds(1500)});
  run_in_processes(options, [](Rank& rank) { (void)rank.world.all_reduce(large(rank)).wait(); });
  CHECK(nccl.is_clean());
  CHECK(nccl.counts().aborted == 0);
}

TEST_CASE("nccl: meshes of different sizes follow each other, with communicators of their own") {
  NcclOnHost nccl;
  in_processes(3, [&](Job& job) {
    for (const int count : {3, 2, 3}) {
      WorldOptions options = on_nccl(count, nccl);
      options.job = &job;
      run_ranks(options, [&](Rank& rank) {
        CHECK(rank.world.all_reduce(large(rank)).wait().to_doubles()[0] == count);
        CHECK(rank.world.exchange(large(rank), (rank.index + 1) % count, (rank.index + count - 1) % count)
                  .wait()
                  .numel() == 30000);
      });
    }
  });
  CHECK(nccl.is_clean());
  CHECK(nccl.counts().closed == 2 * (3 + 6) + 2 + 4);
}

}  // namespace

}  // namespace heddle::test

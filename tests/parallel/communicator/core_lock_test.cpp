#include "parallel/communicator/core_lock.h"

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/ranks.h"

namespace heddle::test {
namespace {

WorldOptions by_cpu_time(int count) {
  WorldOptions options = ranks(count);
  options.clock.is_virtual = true;
  return options;
}

/// Computes for the given time and counts how many ranks did so at the same time.
class Computing {
 public:
  void operator()(double seconds) {
    const int others = at_once_++;
    int most = most_.load();
    while (most < others + 1 && !most_.compare_exchange_weak(most, others + 1)) continue;
    const double begin = thread_cpu_seconds();
    while (thread_cpu_seconds() < begin + seconds) std::this_thread::yield();
    --at_once_;
  }
  int most() const { return most_.load(); }

 private:
  std::atomic<int> at_once_{0};
  std::atomic<int> most_{0};
};

TEST_CASE("A core lock goes to waiting threads in the order of their calls") {
  CoreLock core;
  core.lock();
  std::vector<int> order;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 5; ++i) {
    threads.emplace_back([&, i] {
      core.lock();
      order.push_back(i);
      core.unlock();
    });
    while (core.waiting() <= static_cast<std::size_t>(i)) std::this_thread::yield();
  }
  core.unlock();
  threads.clear();
  CHECK(order == std::vector<int>{0, 1, 2, 3, 4});
  core.lock();  // it is free again
}

TEST_CASE("Ranks with virtual clocks compute one at a time, whatever they send meanwhile") {
  Computing compute;
  run_ranks(by_cpu_time(4), [&compute](Rank& rank) {
    const int next = (rank.index + 1) % rank.size;
    const int before = (rank.index + rank.size - 1) % rank.size;
    for (int i = 0; i < 20; ++i) {
      compute(0.0005);
      Work<void> sent = rank.world.send(rows_of(rank, 2, 2), next);
      compute(0.0005);
      (void)rank.world.recv(before).wait();
      compute(0.0005);
      sent.wait();
      const Tensor total = rank.world.all_reduce(rows_of(rank, 3, 1));
    }
  });
  CHECK(compute.most() == 1);
}

TEST_CASE("By a wall clock, or by a time that is counted, ranks compute at once") {
  for (const bool is_virtual : {false, true}) {
    WorldOptions options = ranks(2);
    options.clock.is_virtual = is_virtual;
    if (is_virtual) options.clock.computed = [](const Device&) { return 0.0; };
    std::atomic<int> there{0};
    run_ranks(options, [&there](Rank&) {
      ++there;
      while (there.load() < 2) std::this_thread::yield();  // hangs if only one of them computes
    });
    CHECK(there.load() == 2);
  }
}

TEST_CASE("A rank that fails releases the core lock, whether it computes, communicates or has caught an error") {
  const auto fails_with = [](const std::string& expected, const std::function<void(Rank&)>& body) {
    CHECK_THROWS_WITH_AS(run_ranks(by_cpu_time(3), body), expected.c_str(), RankFailed);
  };
  fails_with("rank 1 failed: broken", [](Rank& rank) {
    if (rank.index == 1) throw std::runtime_error("broken");
    rank.world.barrier().wait();
  });
  fails_with("rank 2 failed: why", [](Rank& rank) {
    if (rank.index == 2) rank.world.abort("why");
    (void)rank.world.all_reduce(rows_of(rank, 1, 1)).wait();
  });
  fails_with(
      "deadlock: rank 0, message 1: recv from rank 1 waits for rank 1; rank 1, message 1: recv from rank 0 waits for "
      "rank 0",
      [](Rank& rank) {
        if (rank.index == 2) return;
        try {
          (void)rank.world.recv(1 - rank.index).wait();
        } catch (const Stopped&) {
          const double begin = thread_cpu_seconds();
          while (thread_cpu_seconds() < begin + 0.001) continue;
          throw;
        }
      });
}

}  // namespace
}  // namespace heddle::test

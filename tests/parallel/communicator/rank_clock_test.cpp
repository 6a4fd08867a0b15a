#include <algorithm>
#include <functional>
#include <vector>

#include <doctest/doctest.h>

#include "framework/ops/linear_algebra.h"
#include "tests/support/compare/close_to.h"
#include "tests/support/transports.h"

namespace heddle::test::rank_clock_test {
namespace {

/// Powers of two, so that the times below are exact: a message of n bytes takes 1/4 + n/8 seconds.
constexpr double latency = 0.25;
constexpr double seconds_per_byte = 0.125;

/// Ranks that compute by adding to their number of seconds.
struct Timeline {
  explicit Timeline(int ranks) : computed(static_cast<std::size_t>(ranks)) {}
  void compute(const Rank& rank, double seconds) { computed[static_cast<std::size_t>(rank.index)] += seconds; }

  WorldOptions options() const {
    WorldOptions options = on_transport(static_cast<int>(computed.size()));
    options.clock = {
        .is_virtual = true,
        .links = {.within_node = {.latency = latency, .bandwidth = 1 / seconds_per_byte},
                  .between_nodes = {.latency = 8 * latency, .bandwidth = 1 / (8 * seconds_per_byte)}},
        .computed = [this](const Device& device) { return computed[static_cast<std::size_t>(device.rank())]; }};
    return options;
  }

  std::vector<double> computed;
};

Tensor bytes(Rank& rank, std::int64_t count) {
  return Tensor::zeros(rank.device, {count}, DType::u8);
}

/// Each rank must take so many seconds from the body's begin to its end; all begin at the same time.
void takes(const std::vector<double>& seconds, const WorldOptions& options, const std::function<void(Rank&)>& body) {
  if (!can_run(options.mesh.size())) return pass_over(options.mesh.size());
  run(options, [&](Rank& rank) {
    const double begin = rank.clock.now();
    body(rank);
    CHECK(rank.clock.now() - begin == seconds[static_cast<std::size_t>(rank.index)]);
  });
}

TEST_CASE("A message arrives latency and bytes after its send, and its sender continues when the last byte has left") {
  Timeline line(2);
  takes({3 + 16 * seconds_per_byte, 3 + latency + 16 * seconds_per_byte}, line.options(), [&](Rank& rank) {
    line.compute(rank, rank.index == 0 ? 3 : 1);
    if (rank.index == 0) rank.world.send(bytes(rank, 16), 1).wait();
    if (rank.index == 1) (void)rank.world.recv(0).wait();
  });
}

TEST_CASE("Transfers to and from the host follow one another on the rank's own link while the rank computes") {
  Timeline line(2);
  WorldOptions options = line.options();
  options.clock.links.host = {.latency = latency, .bandwidth = 1 / seconds_per_byte};
  takes({5, 6}, options, [&](Rank& rank) {
    const double begin = rank.clock.now();
    bool has_moved = false;
    const auto move = [&] {
      has_moved = true;
      line.compute(rank, 100);  // moving is the link's, not the rank's
    };
    const RankClock::Interval out = rank.clock.transfer(6, move);
    CHECK(has_moved);
    const RankClock::Interval back = rank.clock.transfer(14, move);
    CHECK(out.begin == begin);
    CHECK(out.end == begin + 1);
    CHECK(back.begin == out.end);
    CHECK(back.end == begin + 3);
    line.compute(rank, 5);
    CHECK(rank.clock.transfer(6, move).begin == begin + 5);
    if (rank.index == 1) rank.clock.wait_until(begin + 6);
  });
}

TEST_CASE("A message that is there costs its receiver no time") {
  Timeline line(2);
  takes({2, 10}, line.options(), [&](Rank& rank) {
    line.compute(rank, rank.index == 0 ? 0 : 10);
    if (rank.index == 0) rank.world.send(bytes(rank, 16), 1).wait();
    if (rank.index == 1) (void)rank.world.recv(0).wait();
  });
}

TEST_CASE("A receive that was started early ends when the message arrives, and computing continues meanwhile") {
  Timeline line(2);
  takes({4 + 1, 4 + latency + 1 + 1}, line.options(), [&](Rank& rank) {
    if (rank.index == 0) {
      line.compute(rank, 4);
      Work<void> sent = rank.world.send(bytes(rank, 8), 1);
      line.compute(rank, 0.5);
      sent.wait();
    } else {
      Work<Tensor> message = rank.world.recv(0);
      line.compute(rank, 2);
      (void)message.wait();
      line.compute(rank, 1);
    }
  });
}

TEST_CASE("Messages of one link queue, those of two links do not") {
  Timeline line(3);
  takes({2 + 3, 2 + 3 + latency, 2 + latency}, line.options(), [&](Rank& rank) {
    if (rank.index == 0) {
      Work<void> first = rank.world.send(bytes(rank, 16), 1);
      Work<void> second = rank.world.send(bytes(rank, 24), 1);
      Work<void> other = rank.world.send(bytes(rank, 16), 2);
      first.wait();
      second.wait();
      other.wait();
    } else if (rank.index == 1) {
      const double begin = rank.clock.now();
      (void)rank.world.recv(0).wait();
      CHECK(rank.clock.now() - begin == 2 + latency);
      (void)rank.world.recv(0).wait();
    } else {
      (void)rank.world.recv(0).wait();
    }
  });
}

TEST_CASE("A slow receiver does not delay a sender that waits for none of its messages") {
  Timeline line(2);
  takes({4 + 8 * seconds_per_byte, 1 + latency + 8 * seconds_per_byte + 4 * 10}, line.options(), [&](Rank& rank) {
    const double begin = rank.clock.now();
    std::vector<Work<void>> sent;
    for (int i = 0; i < 4; ++i)
      if (rank.index == 0) {
        line.compute(rank, 1);
        sent.push_back(rank.world.send(bytes(rank, 8), 1));
        CHECK(rank.clock.now() - begin == i + 1);
      } else {
        (void)rank.world.recv(0).wait();
        line.compute(rank, 10);
      }
    for (Work<void>& work : sent) work.wait();
  });
}

TEST_CASE("Messages between nodes take the outer link") {
  Timeline line(4);
  WorldOptions options = line.options();
  options.clock.links.ranks_per_node = 2;
  takes({4, 0, 8 * latency + 4, 0}, options, [&](Rank& rank) {
    if (rank.index == 0) rank.world.send(bytes(rank, 4), 2).wait();
    if (rank.index == 2) (void)rank.world.recv(0).wait();
  });
}

TEST_CASE("A collective ends on all ranks at the latest call plus the model's seconds") {
  Timeline line(4);
  // 16 bytes: in each of two phases three messages of four bytes.
  takes(std::vector<double>(4, 3 + 2 * 3 * (latency + 4 * seconds_per_byte)), line.options(), [&](Rank& rank) {
    line.compute(rank, rank.index);
    (void)rank.world.all_reduce(zeros(rank, 4)).wait();
  });
}

TEST_CASE("Every verb takes the seconds of what it moves") {
  // On two ranks each takes one message out and one in.
  const auto verb_takes = [](double seconds, const std::function<void(Rank&)>& verb) {
    const Timeline line(2);
    takes({seconds, seconds}, line.options(), verb);
  };
  verb_takes(latency + 1, [](Rank& rank) { (void)rank.world.broadcast(bytes(rank, 8), 1).wait(); });
  verb_takes(latency + 12 * seconds_per_byte, [](Rank& rank) {
    (void)rank.world.all_gather(bytes(rank, 8 * (rank.index + 1))).wait();
  });  // rows of 8 and of 16 bytes: half of the whole
  verb_takes(2 * (latency + 1), [](Rank& rank) { (void)rank.world.reduce(zeros(rank, 4), 1).wait(); });
  verb_takes(latency + 1, [](Rank& rank) { (void)rank.world.reduce_scatter(zeros(rank, 4)).wait(); });
  verb_takes(latency + 1, [](Rank& rank) {
    const std::vector<Tensor> parts{bytes(rank, 100), bytes(rank, rank.index == 0 ? 8 : 100)};
    (void)rank.world.all_to_all(rank.index == 0 ? parts : std::vector{bytes(rank, 0), bytes(rank, 100)}).wait();
  });  // what a rank keeps is free
  verb_takes(latency + 1, [](Rank& rank) { (void)rank.world.gather(bytes(rank, 8), 0).wait(); });
  verb_takes(latency + 1, [](Rank& rank) {
    (void)rank.world.scatter(std::vector{bytes(rank, 100), bytes(rank, 8)}, 0).wait();
  });
  verb_takes(latency, [](Rank& rank) { rank.world.barrier().wait(); });
}

TEST_CASE("An exchange ends when the message has come and the own one has left") {
  Timeline line(2);
  takes({10, 10 + latency}, line.options(), [&](Rank& rank) {
    line.compute(rank, rank.index);
    (void)rank.world.exchange(bytes(rank, rank.index == 0 ? 80 : 8), 1 - rank.index).wait();
  });  // not 1 + latency + 1: the 80 bytes take ten seconds
}

TEST_CASE("Collectives of the same ranks follow one another, and computing hides them") {
  const double one = latency + 16 * seconds_per_byte;  // all_gather of 16 bytes on each of two ranks
  for (const double computing : {0.0, 3.0, 100.0}) {
    Timeline line(2);
    takes(std::vector<double>(2, std::max(2 * one, computing)), line.options(), [&](Rank& rank) {
      Work<Tensor> first = rank.world.all_gather(bytes(rank, 16));
      Work<Tensor> second = rank.world.all_gather(bytes(rank, 16));
      line.compute(rank, computing);
      (void)first.wait();
      (void)second.wait();
    });
  }
}

TEST_CASE("More collectives than may be under way at once do not make the rank wait") {
  Timeline line(2);
  takes(std::vector<double>(2, 80), line.options(), [&](Rank& rank) {
    std::vector<Work<Tensor>> works;
    for (int i = 0; i < 20; ++i) {
      works.push_back(rank.world.all_gather(bytes(rank, 16)));
      line.compute(rank, 4);  // longer than one takes
    }
    for (Work<Tensor>& work : works) (void)work.wait();
  });
}

TEST_CASE("A rank of half the speed computes twice as long") {
  Timeline line(3);
  WorldOptions options = line.options();
  options.clock.speeds = {1, 0.5};
  const double barrier = 2 * latency;
  takes(std::vector<double>(3, 8 + barrier), options, [&](Rank& rank) {
    line.compute(rank, 4);
    rank.world.barrier().wait();
    CHECK(rank.clock.busy_seconds() == (rank.index == 1 ? 8 : 4));
  });
}

TEST_CASE("Jitter follows from the seed, differs between ranks and stretches, and keeps its bounds") {
  if (!ranks_share_a_process()) return;
  const auto busy = [](std::uint64_t seed) {
    Timeline line(4);
    WorldOptions options = line.options();
    options.key = {seed};
    options.clock.jitter = 0.25;
    std::vector<std::vector<double>> stretches(4);
    run(options, [&](Rank& rank) {
      for (int i = 0; i < 20; ++i) {
        const double before = rank.clock.busy_seconds();
        line.compute(rank, 1);
        stretches[static_cast<std::size_t>(rank.index)].push_back(rank.clock.busy_seconds() - before);
        rank.world.barrier().wait();
      }
    });
    return stretches;
  };
  const auto once = busy(1);
  CHECK(once == busy(1));
  CHECK(once != busy(2));
  CHECK(once[0] != once[1]);
  for (const auto& rank : once)
    for (std::size_t i = 0; i < rank.size(); ++i) {
      CHECK(rank[i] >= close_to(0.75));
      CHECK(rank[i] <= close_to(1.25));
      if (i > 0) CHECK(rank[i] != rank[i - 1]);
    }
}

TEST_CASE("What is computed within communicators is not the rank's time") {
  double computed = 0;
  RankClock clock(0, {}, [&] { return computed; });
  computed += 1;
  {
    const Communicating outer(clock);
    computed += 10;
    const Communicating inner(clock);
    computed += 10;
  }
  computed += 2;
  CHECK(clock.busy_seconds() == 3);
  CHECK(clock.now() == 3);
  clock.wait_until(5);
  CHECK(clock.now() == 5);
  clock.wait_until(4);
  CHECK(clock.now() == 5);
  CHECK(clock.busy_seconds() == 3);
}

TEST_CASE("On plan a rank's clock times its kernels by the profile and its messages by the links") {
  Timeline line(2);
  WorldOptions options = line.options();
  options.backend = "plan";
  options.clock.computed = nullptr;
  options.backend_options.profile = {.flops_per_second = 64, .bytes_per_second = 32};
  takes(std::vector<double>(2, 8192 / 64.0 + latency + 1 + 2048 / 32.0), options, [](Rank& rank) {
    const NoGrad no_grad(rank.device);
    const Variable x(Tensor::empty(rank.device, {16, 16}, DType::f32));
    (void)matmul(x, x);  // 2 * 16^3 operations outlast three times 1024 bytes
    (void)rank.world.all_gather(Tensor::empty(rank.device, {8}, DType::u8)).wait();
    x.value().clone();  // 1024 bytes read and written
  });
}

TEST_CASE("Virtual ranks compute on one thread unless the options say otherwise") {
  WorldOptions options;
  options.clock.is_virtual = true;
  CHECK(threads_per_rank(options) == 1);
}

}  // namespace
}  // namespace heddle::test::rank_clock_test

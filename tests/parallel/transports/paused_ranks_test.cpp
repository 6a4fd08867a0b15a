// Ranks that are stopped for a while, and links that are down: they are late, but not in a deadlock.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <set>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "parallel/transports/processes/job.h"
#include "parallel/transports/processes/tcp/tcp_wire.h"
#include "parallel/world.h"
#include "tests/support/message.h"
#include "tests/support/processes/local_job.h"
#include "tests/support/ranks.h"

namespace heddle::test {

namespace {

using std::chrono::milliseconds;

/// What a rank's wire is kept from, until a time: all that comes, as if the process were stopped, or what one rank
/// sends.
struct Hindrance {
  using Clock = std::chrono::steady_clock;
  static constexpr int every_rank = -1;

  void begin(int whose, milliseconds length) {
    from = whose;
    until = Clock::now() + length;
  }
  bool is_over() const { return Clock::now() >= until; }

  int from = every_rank;
  Clock::time_point until{};
  std::set<int> silent;  // the ranks whose machine does not acknowledge, as far as this rank's wire knows
  std::set<int> stuck;   // the ranks to which elements do not arrive
  int receives = 0;      // of elements, so far
  int stops_after = 0;   // so many receives, for `length`; 0: it does not
  milliseconds length{};
};

/// Elements that do not arrive.
class StuckTransfer : public WireTransfer {
 public:
  bool is_done() override { return false; }
  void cancel() override {}
};

class HinderedWire : public Wire {
 public:
  HinderedWire(std::unique_ptr<Wire> wire, Hindrance& hindrance) : wire_(std::move(wire)), hindrance_(hindrance) {}

  int rank() const override { return wire_->rank(); }
  int size() const override { return wire_->size(); }
  int local_size() const override { return wire_->local_size(); }
  int local_rank() const override { return wire_->local_rank(); }
  std::string name() const override { return wire_->name(); }
  std::optional<Loss> next_loss() override { return wire_->next_loss(); }
  bool is_silent(int process) const override { return hindrance_.silent.contains(process); }
  void post(int to, std::span<const std::byte> head, std::span<const std::byte> content, bool more_follow) override {
    wire_->post(to, head, content, more_follow);
  }

  std::optional<Frame> next_frame() override {
    if (hindrance_.from == Hindrance::every_rank) std::this_thread::sleep_until(hindrance_.until);
    if (hindrance_.is_over() && !held_.empty()) {
      read_ = std::move(held_.front());
      held_.pop_front();
      return Frame{read_.from, read_.content, read_.more_follow};
    }
    while (const std::optional<Frame> frame = wire_->next_frame()) {
      if (hindrance_.is_over() || frame->from != hindrance_.from) return frame;
      held_.push_back({frame->from, {frame->content.begin(), frame->content.end()}, frame->more_follow});
    }
    return {};
  }

  bool flush(milliseconds timeout) noexcept override { return wire_->flush(timeout); }
  std::unique_ptr<WireTransfer> send(int to, int tag, const void* data, std::int64_t bytes) override {
    if (hindrance_.stuck.contains(to)) return std::make_unique<StuckTransfer>();
    return wire_->send(to, tag, data, bytes);
  }
  std::unique_ptr<WireTransfer> receive(int from, int tag, void* data, std::int64_t bytes) override {
    if (++hindrance_.receives == hindrance_.stops_after) hindrance_.begin(Hindrance::every_rank, hindrance_.length);
    return wire_->receive(from, tag, data, bytes);
  }
  bool native_collective(Operation operation, std::span<float> in, std::span<float> out) override {
    return wire_->native_collective(operation, in, out);
  }
  void leave() override { wire_->leave(); }
  void abort(int code) override { wire_->abort(code); }

 private:
  struct Held {
    int from;
    std::vector<std::byte> content;
    bool more_follow;
  };

  std::unique_ptr<Wire> wire_;
  Hindrance& hindrance_;
  std::deque<Held> held_;
  Held read_{};
};

/// Runs the body on ranks that are processes with such wires; probes are a second apart. Gives each rank's error.
std::vector<std::string> errors_of(int count, Connection connection,
                                   const std::function<void(Rank& rank, Hindrance& own)>& body) {
  LocalWires wires(count);
  const RendezvousAddress point{"127.0.0.1", connection == Connection::sockets ? free_port() : std::uint16_t{0}};
  std::vector<std::string> errors(static_cast<std::size_t>(count));
  std::vector<std::jthread> threads;
  for (int p = 0; p < count; ++p)
    threads.emplace_back([&, p] {
      Hindrance hindrance;
      std::unique_ptr<Wire> wire = connection == Connection::memory ? wires.wire(p) : join_by_tcp({p, count}, point);
      Job own(std::make_unique<HinderedWire>(std::move(wire), hindrance));
      WorldOptions options = ranks(count);
      options.transport = "processes";
      options.job = &own;
      options.timeout = std::chrono::seconds(20);
      errors[static_cast<std::size_t>(p)] =
          message_of([&] { run_ranks(options, [&](Rank& rank) { body(rank, hindrance); }); });
      own.leave(0);
    });
  threads.clear();
  return errors;
}

Tensor one(Rank& rank) {
  return Tensor::zeros(rank.device, {1}, DType::f32);
}

}  // namespace

TEST_CASE("no deadlock: a rank is stopped while it waits, and wakes to the message and many probes behind it") {
  for (const Connection connection : {Connection::memory, Connection::sockets})
    for (const std::string& error : errors_of(3, connection, [](Rank&rank, Hindrance&own) {
           rank.world.barrier().wait();
           if (rank.index == 2) {
             own.begin(Hindrance::every_rank, milliseconds(3600));
             rank.world.recv(1).wait();
             std::this_thread::sleep_for(milliseconds(200));
             rank.world.send(one(rank), 1).wait();
           }
           if (rank.index == 1) {
             Work<void> sending = rank.world.send(one(rank), 2);
             rank.world.recv(2).wait();
             sending.wait();
           }
           rank.world.barrier().wait();
         }))
      CHECK(error == "no error");
}

TEST_CASE("no deadlock: a message is held up on its link, while probes go around by the others") {
  for (const Connection connection : {Connection::memory, Connection::sockets})
    for (const std::string& error : errors_of(3, connection, [](Rank&rank, Hindrance&own) {
           rank.world.barrier().wait();
           const int next = (rank.index + 2) % 3;  // 0 waits for 2, 2 for 1, 1 for 0
           const int previous = (rank.index + 1) % 3;
           if (rank.index == 2) own.begin(1, milliseconds(4600));
           if (rank.index == 1) {
             Work<void> sending = rank.world.send(one(rank), previous);
             rank.world.recv(next).wait();
             sending.wait();
           } else {
             rank.world.recv(next).wait();
             rank.world.send(one(rank), previous).wait();
           }
         }))
      CHECK(error == "no error");
}

TEST_CASE("a deadlock is found, and reported with the same text, where one of its ranks was stopped meanwhile") {
  const std::vector<std::string> errors = errors_of(3, Connection::sockets, [](Rank& rank, Hindrance& own) {
    rank.world.barrier().wait();
    if (rank.index == 2) own.begin(Hindrance::every_rank, milliseconds(2600));
    rank.world.recv((rank.index + 1) % 3).wait();
  });
  for (const std::string& error : errors)
    CHECK(error ==
          "deadlock: rank 0, message 1: recv from rank 1 waits for rank 1; rank 1, message 1: recv from rank 2 waits "
          "for rank 2; rank 2, message 1: recv from rank 0 waits for rank 0");
}

TEST_CASE("if rank 0 does not respond, the lowest of the other ranks reports it, once") {
  using Clock = std::chrono::steady_clock;
  for (const Connection connection : {Connection::memory, Connection::sockets}) {
    std::atomic<Clock::time_point> last_came;
    std::atomic<int> reporter = -1;
    Clock::time_point reported;
    const auto body = [&](Job& own) {
      own.set_on_silent_leader([&](const std::string& why) {
        CHECK(why == "rank 1, call 3: barrier: timed out after 1 s waiting for rank 0");
        CHECK(reporter.exchange(own.rank()) == -1);
        reported = Clock::now();
      });
      WorldOptions options = ranks(4);
      options.transport = "processes";
      options.job = &own;
      options.timeout = milliseconds(1000);
      run_ranks(options, [&](Rank& rank) {
        rank.world.barrier().wait();
        if (rank.index > 1) std::this_thread::sleep_for(milliseconds(300));
        if (rank.index == 0)
          std::this_thread::sleep_for(milliseconds(4000));
        else
          last_came = Clock::now();
        rank.world.barrier().wait();
      });
    };
    CHECK_THROWS_WITH_AS(in_processes(4, body, connection),
                         "rank 1, call 3: barrier: timed out after 1 s waiting for rank 0", RankFailed);
    REQUIRE(reporter == 1);
    CHECK(reported - last_came.load() < milliseconds(3000));
  }
}

TEST_CASE("if rank 0 is late, and responds before another rank has reported it, it reports this itself") {
  WorldOptions options = ranks(3);
  options.transport = "processes";
  options.timeout = milliseconds(1000);
  const auto body = [&](Job& own) {
    own.set_on_silent_leader([](const std::string& why) { FAIL_CHECK(why); });
    WorldOptions mine = options;
    mine.job = &own;
    run_ranks(mine, [](Rank& rank) {
      rank.world.barrier().wait();
      if (rank.index == 2) std::this_thread::sleep_for(milliseconds(300));
      if (rank.index == 0) std::this_thread::sleep_for(milliseconds(1400));
      rank.world.barrier().wait();
    });
  };
  CHECK_THROWS_WITH_AS(in_processes(3, body), "rank 1, call 3: barrier: timed out after 1 s waiting for rank 0",
                       RankFailed);
}

TEST_CASE("ranks on a machine that does not acknowledge are not waited for, and if rank 0 is there, another reports") {
  using Clock = std::chrono::steady_clock;
  LocalWires wires(4);
  std::atomic<int> reporter = -1;
  std::array<Clock::duration, 4> seconds{};
  const auto begin = Clock::now();
  std::vector<std::jthread> threads;
  for (int p = 0; p < 4; ++p)
    threads.emplace_back([&, p] {
      const bool is_lost = p == 0 || p == 3;
      Hindrance hindrance;
      if (!is_lost) hindrance.silent = {0, 3};
      Job own(std::make_unique<HinderedWire>(wires.wire(p), hindrance));
      own.set_on_silent_leader([&, p](const std::string& why) {
        CHECK(why.ends_with("recv from rank 3: timed out after 1 s waiting for rank 3"));
        CHECK(reporter.exchange(p) == -1);
      });
      WorldOptions options = ranks(4);
      options.transport = "processes";
      options.job = &own;
      options.timeout = milliseconds(1000);
      (void)message_of([&] {
        run_ranks(options, [&](Rank& rank) {
          rank.world.barrier().wait();
          if (is_lost) hindrance.begin(Hindrance::every_rank, milliseconds(7000));
          rank.world.recv(p == 3 ? 0 : 3).wait();
        });
      });
      seconds[static_cast<std::size_t>(p)] = Clock::now() - begin;
    });
  threads.clear();
  CHECK(reporter == 1);
  CHECK(std::max(seconds[1], seconds[2]) < milliseconds(6000));
}

TEST_CASE("elements that a late rank does not take keep no rank from the end of the job") {
  using Clock = std::chrono::steady_clock;
  constexpr int late = 3;
  LocalWires wires(4);
  std::array<Clock::duration, 4> seconds{};
  std::array<std::string, 4> errors;
  const auto begin = Clock::now();
  std::vector<std::jthread> threads;
  for (int p = 0; p < 4; ++p)
    threads.emplace_back([&, p] {
      const auto i = static_cast<std::size_t>(p);
      Hindrance hindrance;
      if (p == late) {
        hindrance.stops_after = 3;
        hindrance.length = milliseconds(7000);
      } else {
        hindrance.stuck = {late};
      }
      Job own(std::make_unique<HinderedWire>(wires.wire(p), hindrance));
      WorldOptions options = ranks(4);
      options.transport = "processes";
      options.job = &own;
      options.timeout = milliseconds(1000);
      errors[i] = message_of([&] {
        run_ranks(options,
                  [&](Rank& rank) { rank.world.all_gather(Tensor::zeros(rank.device, {100000}, DType::f32)).wait(); });
      });
      seconds[i] = Clock::now() - begin;
    });
  threads.clear();
  for (std::size_t p = 0; p < late; ++p) {
    CHECK(errors[p].ends_with("timed out after 1 s waiting for rank 3"));
    CHECK(seconds[p] < milliseconds(3000));
  }
}

}  // namespace heddle::test

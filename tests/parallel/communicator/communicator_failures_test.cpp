// Waits that cannot succeed, and how they end: deadlocks, and ranks that throw, abort, finish or do not respond.
#include <chrono>
#include <stdexcept>
#include <thread>

#include <doctest/doctest.h>

#include "parallel/communicator/communicator.h"
#include "parallel/world.h"
#include "tests/support/transports.h"

namespace heddle::test {

namespace {

using namespace test;  // NOLINT(google-build-using-namespace): the ranks and values of this suite

/// A body over a communicator of all ranks that counts its calls anew, after all ranks are there.
std::function<void(Rank&)> counted_anew(const std::function<void(Rank&, Communicator&)>& body) {
  return [body](Rank& rank) {
    Communicator all = rank.world.split(0);
    body(rank, all);
  };
}

void deadlocks(int count, const std::function<void(Rank&, Communicator&)>& body, const std::string& cycle) {
  fails_on_ranks(count, counted_anew(body), "deadlock: " + cycle);
}

}  // namespace

TEST_CASE("deadlock: two ranks that both receive first") {
  deadlocks(
      2, [](Rank& rank, Communicator& all) { all.recv(1 - rank.index).wait(); },
      "rank 0, message 1: recv from rank 1 waits for rank 1; rank 1, message 1: recv from rank 0 waits for rank 0");
}

TEST_CASE("deadlock: two ranks that both wait for their sends first, at any size") {
  for (const std::int64_t count : {0, 1, 100000})
    deadlocks(
        2,
        [count](Rank& rank, Communicator& all) {
          all.send(zeros(rank, count), 1 - rank.index).wait();
          all.recv(1 - rank.index).wait();
        },
        fmt::format("rank 0, message 1: send to rank 1 f32[{0}] waits for rank 1; rank 1, message 1: send to rank 0 "
                    "f32[{0}] waits for rank 0",
                    count));
}

TEST_CASE(
    "deadlock: a ring of receives, reported from its lowest rank; ranks that only wait for the ring are not in it") {
  deadlocks(
      4,
      [](Rank& rank, Communicator& all) {
        if (rank.index == 0) all.recv(3).wait();
        if (rank.index != 0) all.recv(rank.index == 1 ? 2 : rank.index == 2 ? 3 : 1).wait();
      },
      "rank 1, message 1: recv from rank 2 waits for rank 2; rank 2, message 1: recv from rank 3 waits for rank 3; "
      "rank 3, message 1: recv from rank 1 waits for rank 1");
}

TEST_CASE("deadlock: a collective on one side, a receive on the other") {
  deadlocks(
      2,
      [](Rank& rank, Communicator& all) {
        all.barrier().wait();
        if (rank.index == 0)
          all.all_reduce(zeros(rank, 4)).wait();
        else
          all.recv(0).wait();
      },
      "rank 0, call 2: all_reduce(sum) f32[4] waits for rank 1; rank 1, message 1: recv from rank 0 waits for rank 0");
}

TEST_CASE("deadlock: a collective, a send and a receive, each of another rank") {
  deadlocks(
      3,
      [](Rank& rank, Communicator& all) {
        if (rank.index == 0) all.reduce(zeros(rank, 2), 0).wait();
        if (rank.index == 1) all.send(zeros(rank, 3), 2).wait();
        if (rank.index == 2) all.recv(0).wait();
      },
      "rank 0, call 1: reduce(sum) to rank 0 f32[2] waits for rank 1; rank 1, message 1: send to rank 2 f32[3] waits "
      "for rank 2; rank 2, message 1: recv from rank 0 waits for rank 0");
}

TEST_CASE("deadlock: a rank of a collective waits for another one of it, and the rest come later") {
  deadlocks(
      3,
      [](Rank& rank, Communicator& all) {
        if (rank.index == 1) std::this_thread::sleep_for(std::chrono::milliseconds(100));
        rank.index == 2 ? (void)all.recv(0).wait() : all.barrier().wait();
      },
      "rank 0, call 1: barrier waits for rank 2; rank 2, message 1: recv from rank 0 waits for rank 0");
}

TEST_CASE("deadlock: two communicators in different orders") {
  deadlocks(
      2,
      [](Rank& rank, Communicator& all) {
        Communicator other = all.split(0);
        other.barrier().wait();
        if (rank.index == 0) {
          all.all_reduce(zeros(rank, 4)).wait();
          other.all_gather(zeros(rank, 5)).wait();
        } else {
          other.all_gather(zeros(rank, 5)).wait();
          all.all_reduce(zeros(rank, 4)).wait();
        }
      },
      "rank 0, call 2: all_reduce(sum) f32[4] waits for rank 1; rank 1, call 2: all_gather f32[5] waits for rank 0");
}

TEST_CASE("no deadlock: what was started before the wait is under way, whatever the order of the waits") {
  for (const int count : {2, 4})
    on_ranks(count, [](Rank& rank) {
      const int partner = rank.index ^ 1;
      for (int i = 0; i < 200; ++i) {
        Work<void> sending = rank.world.send(zeros(rank, 10), partner);
        Work<Tensor> sum = rank.world.all_reduce(zeros(rank, 3));
        Work<Tensor> receiving = rank.world.recv(partner);
        if ((rank.index + i) % 2 == 0) {
          receiving.wait();
          sum.wait();
        } else {
          sum.wait();
          receiving.wait();
        }
        sending.wait();
      }
    });
}

TEST_CASE("no deadlock: a rank that computes for long is waited for") {
  on_ranks(3, [](Rank& rank) {
    if (rank.index == 2) std::this_thread::sleep_for(std::chrono::milliseconds(200));
    if (rank.index == 0) rank.world.recv(1).wait();
    if (rank.index == 1) {
      rank.world.recv(2).wait();
      rank.world.send(zeros(rank, 1), 0).wait();
    }
    if (rank.index == 2) rank.world.send(zeros(rank, 1), 1).wait();
    rank.world.barrier().wait();
  });
}

TEST_CASE("a rank that throws is named on every rank that waits") {
  fails_on_ranks(
      3,
      [](Rank& rank) {
        rank.world.barrier().wait();
        if (rank.index == 2) throw std::runtime_error("a simulated failure");
        if (rank.index == 0) rank.world.all_reduce(zeros(rank, 4)).wait();
        if (rank.index == 1) rank.world.recv(2).wait();
      },
      "rank 2 failed: a simulated failure");
}

TEST_CASE("abort ends all ranks with its reason") {
  fails_on_ranks(
      3,
      [](Rank& rank) {
        if (rank.index == 1) rank.world.abort("the loss is not finite");
        rank.world.barrier().wait();
      },
      "rank 1 failed: the loss is not finite");
}

TEST_CASE("waiting for a rank that has ended is an error at once") {
  const auto first_rank_only = [](const std::function<void(Rank&, Communicator&)>& wait) {
    return counted_anew([wait](Rank& rank, Communicator& all) {
      if (rank.index == 0) wait(rank, all);
    });
  };
  fails_on_ranks(2, first_rank_only([](Rank& rank, Communicator& all) { all.all_reduce(zeros(rank, 4)).wait(); }),
                 "rank 0, call 1: all_reduce(sum) f32[4]: rank 1 has already finished");
  fails_on_ranks(2, first_rank_only([](Rank& rank, Communicator& all) { all.send(zeros(rank, 4), 1).wait(); }),
                 "rank 0, message 1: send to rank 1 f32[4]: rank 1 has already finished");
  fails_on_ranks(2, first_rank_only([](Rank&, Communicator& all) { all.recv(1).wait(); }),
                 "rank 0, message 1: recv from rank 1: rank 1 has already finished");
}

TEST_CASE("a wait that takes too long names the peer and the operation") {
  WorldOptions options = on_transport(2);
  options.timeout = std::chrono::milliseconds(200);
  fails_on_ranks(
      options,
      [](Rank& rank) {
        rank.world.barrier().wait();
        if (rank.index == 0) rank.world.recv(1).wait();
        // Long enough to be missed, and not for ever: it is alive and does not communicate.
        std::this_thread::sleep_for(std::chrono::milliseconds(600));
      },
      "rank 0, message 1: recv from rank 1: timed out after 0.2 s waiting for rank 1");
}

TEST_CASE("the rank on which all others depend is named, not the rank that has waited longest") {
  using std::chrono::milliseconds;
  WorldOptions options = on_transport(4);
  options.timeout = milliseconds(1000);
  fails_on_ranks(
      options,
      [](Rank& rank) {
        rank.world.barrier().wait();
        if (rank.index == 2) rank.world.recv(1).wait();
        if (rank.index == 1) {
          // The last rank waits for some time already.
          std::this_thread::sleep_for(milliseconds(150));
          rank.world.recv(0).wait();
        }
        // Long enough to be missed, and back before the others give the job up.
        std::this_thread::sleep_for(milliseconds(1700));
      },
      "rank 1, message 1: recv from rank 0: timed out after 1 s waiting for rank 0");
}

TEST_CASE("a rank that has just stopped waiting has its own time to come") {
  if (!can_run(4)) return pass_over(4);
  using std::chrono::milliseconds;
  WorldOptions options = on_transport(4);
  options.timeout = milliseconds(2000);
  CHECK_NOTHROW(run(options, [](Rank& rank) {
    rank.world.barrier().wait();
    if (rank.index == 0) {
      std::this_thread::sleep_for(milliseconds(1800));
      rank.world.send(zeros(rank, 1), 1).wait();
    }
    if (rank.index == 1) {
      rank.world.recv(0).wait();
      std::this_thread::sleep_for(milliseconds(600));
      rank.world.send(zeros(rank, 1), 2).wait();
    }
    if (rank.index == 2) rank.world.recv(1).wait();
  }));
}

}  // namespace heddle::test

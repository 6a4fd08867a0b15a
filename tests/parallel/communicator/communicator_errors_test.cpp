// Calls that are wrong, and calls that do not match.
#include <doctest/doctest.h>

#include "parallel/communicator/communicator.h"
#include "parallel/communicator/shard.h"
#include "parallel/world.h"
#include "tests/support/message.h"
#include "tests/support/transports.h"

namespace heddle::test {

using namespace test;  // NOLINT(google-build-using-namespace): the ranks and values of this suite

TEST_CASE("wrong arguments are reported before anything moves") {
  on_ranks(2, [](Rank& rank) {
    Communicator& world = rank.world;
    const int me = rank.index;
    const Tensor x = rows_of(rank, 3, 2);
    const Tensor scalar = Tensor::zeros(rank.device, {}, DType::f32);
    Tensor labels = numbers(rank, {1, 2});
    Tensor none;
    const auto says = [](const std::string& text, const std::function<void()>& action) {
      CHECK(message_of(action) == text);
    };
    const std::vector<Tensor> one_part{x};
    const std::vector<Tensor> with_a_gap{x, none};
    using Rows = std::vector<std::int64_t>;

    says("broadcast: expected a rank in [0, 2), got 2", [&] { world.broadcast(x, 2).wait(); });
    says("broadcast: expected a tensor, got none", [&] { world.broadcast(none, me).wait(); });
    says("reduce: expected a rank in [0, 2), got -1", [&] { world.reduce(x, -1).wait(); });
    says("reduce: expected a tensor, got none", [&] { world.reduce(none, 0).wait(); });
    says("reduce: expected a floating-point type, got i64[2]", [&] { world.reduce(labels, 0).wait(); });
    says("all_reduce: expected a tensor, got none", [&] { world.all_reduce(none).wait(); });
    says("all_reduce: expected a floating-point type, got i64[2]", [&] { world.all_reduce(labels).wait(); });
    says("all_reduce_in_place: expected a tensor, got none", [&] { world.all_reduce_in_place(none).wait(); });
    says("all_reduce_in_place: expected a floating-point type, got i64[2]",
         [&] { world.all_reduce_in_place(labels).wait(); });
    says("all_gather: expected a tensor, got none", [&] { world.all_gather(none).wait(); });
    says("all_gather: expected rows, got f32[]", [&] { world.all_gather(scalar).wait(); });
    says("reduce_scatter: expected a tensor, got none", [&] { world.reduce_scatter(none).wait(); });
    says("reduce_scatter: expected rows, got f32[]", [&] { world.reduce_scatter(scalar).wait(); });
    says("reduce_scatter: expected a floating-point type, got i64[2]", [&] { world.reduce_scatter(labels).wait(); });
    says("reduce_scatter: expected 2 numbers of rows that make up f32[3,2], got [1,1]", [&] {
      world.reduce_scatter(x, Rows{1, 1}).wait();
    });
    says("reduce_scatter: expected 2 numbers of rows that make up f32[3,2], got [3]",
         [&] { world.reduce_scatter(x, Rows{3}).wait(); });
    says("reduce_scatter: expected 2 numbers of rows that make up f32[3,2], got [4,-1]", [&] {
      world.reduce_scatter(x, Rows{4, -1}).wait();
    });
    says("all_to_all: expected 2 parts, one for each rank, got 1", [&] { world.all_to_all(one_part).wait(); });
    says("all_to_all: expected a tensor, got none", [&] { world.all_to_all(with_a_gap).wait(); });
    says("gather: expected a rank in [0, 2), got 7", [&] { world.gather(x, 7).wait(); });
    says("gather: expected a tensor, got none", [&] { world.gather(none, 0).wait(); });
    says("scatter: expected a rank in [0, 2), got -1", [&] { world.scatter(with_a_gap, -1).wait(); });
    says("scatter: expected 2 parts, one for each rank, got 1", [&] { world.scatter(one_part, me).wait(); });
    says("scatter: expected a tensor, got none", [&] { world.scatter(with_a_gap, me).wait(); });
    says("send: expected a rank in [0, 2), got 2", [&] { world.send(x, 2).wait(); });
    says(fmt::format("send: rank {0} cannot send to itself", me), [&] { world.send(x, me).wait(); });
    says("send: expected a tensor, got none", [&] { world.send(none, 1 - me).wait(); });
    says("recv: expected a rank in [0, 2), got -1", [&] { world.recv(-1).wait(); });
    says(fmt::format("recv: rank {0} cannot receive from itself", me), [&] { world.recv(me).wait(); });
    says("exchange: expected a rank in [0, 2), got 2", [&] { world.exchange(x, 1 - me, 2).wait(); });
    says(fmt::format("exchange: rank {0} cannot send to itself", me), [&] { world.exchange(x, me, 1 - me).wait(); });
    says(fmt::format("exchange: rank {0} cannot receive from itself", me),
         [&] { world.exchange(x, 1 - me, me).wait(); });
    says("exchange: expected a tensor, got none", [&] { world.exchange(none, 1 - me).wait(); });

    // Nothing was started by any of these: the ranks still meet.
    Communicator fresh = world.split(0);
    Work<void> once = fresh.barrier();
    once.wait();
    says(fmt::format("rank {}, call 1: barrier: its result was taken before", me), [&] { once.wait(); });
  });
}

TEST_CASE("a tensor of another rank's device is refused") {
  on_ranks(1, [](Rank& rank) {
    Device other(make_backend("cpu"), 3);
    const Tensor x = Tensor::zeros(other, {2}, DType::f32);
    CHECK(message_of([&] { rank.world.all_reduce(x).wait(); }) ==
          "all_reduce: expected a tensor on rank 0's device, f32[2] is on rank 3's");
  });
}

TEST_CASE("calls that do not match are both printed") {
  // Counted anew, so that the numbers of the calls are the case's own.
  const auto mismatch = [](int count, const std::function<void(Rank&, Communicator&)>& body, const std::string& calls) {
    fails_on_ranks(
        count,
        [&](Rank& rank) {
          Communicator fresh = rank.world.split(0);
          body(rank, fresh);
        },
        "calls do not match: " + calls);
  };
  mismatch(
      2,
      [](Rank& rank, Communicator& all) {
        all.barrier().wait();
        if (rank.index == 0)
          all.all_reduce(rows_of(rank, 4, 2)).wait();
        else
          all.all_gather(rows_of(rank, 4, 2)).wait();
      },
      "rank 0, call 2: all_reduce(sum) f32[4,2], but rank 1, call 2: all_gather f32[4,2]");
  mismatch(
      2,
      [](Rank& rank, Communicator& all) {
        std::vector<Work<Tensor>> started;
        for (int i = 0; i < 20; ++i) started.push_back(all.all_reduce(rows_of(rank, 4, 2)));
        all.all_reduce(rows_of(rank, 4, 2 + rank.index)).wait();
      },
      "rank 0, call 21: all_reduce(sum) f32[4,2], but rank 1, call 21: all_reduce(sum) f32[4,3]");
  mismatch(
      3,
      [](Rank& rank, Communicator& all) {
        const DType dtype = rank.index == 2 ? DType::f64 : DType::f32;
        all.all_reduce(Tensor::zeros(rank.device, {4}, dtype), Reduction::max).wait();
      },
      "rank 0, call 1: all_reduce(max) f32[4], but rank 2, call 1: all_reduce(max) f64[4]");
  mismatch(
      2,
      [](Rank& rank, Communicator& all) {
        Tensor x = rows_of(rank, 4 + rank.index, 1);
        if (rank.index == 0)
          all.all_reduce_in_place(x).wait();
        else
          all.all_reduce(x).wait();
      },
      "rank 0, call 1: all_reduce(sum) f32[4,1], but rank 1, call 1: all_reduce(sum) f32[5,1]");
  mismatch(
      2,
      [](Rank& rank, Communicator& all) {
        all.reduce(rows_of(rank, 2, 2), 1, rank.index == 0 ? Reduction::sum : Reduction::max).wait();
      },
      "rank 0, call 1: reduce(sum) to rank 1 f32[2,2], but rank 1, call 1: reduce(max) to rank 1 f32[2,2]");
  mismatch(
      2, [](Rank& rank, Communicator& all) { all.all_gather(rows_of(rank, 1, 2 + rank.index)).wait(); },
      "rank 0, call 1: all_gather f32[1,2], but rank 1, call 1: all_gather f32[1,3]");
  mismatch(
      2, [](Rank& rank, Communicator& all) { all.broadcast(rows_of(rank, 1, 2), rank.index).wait(); },
      "rank 0, call 1: broadcast from rank 0 f32[1,2], but rank 1, call 1: broadcast from rank 1 f32[1,2]");
  mismatch(
      2,
      [](Rank& rank, Communicator& all) {
        const std::vector<std::int64_t> rows{1 + rank.index, 2 - rank.index};
        all.reduce_scatter(rows_of(rank, 3, 1), rows).wait();
      },
      "rank 0, call 1: reduce_scatter(sum) f32[1,1], f32[2,1], but rank 1, call 1: reduce_scatter(sum) f32[2,1], "
      "f32[1,1]");
  // The same calls in another order.
  mismatch(
      2,
      [](Rank& rank, Communicator& all) {
        Work<Tensor> first =
            rank.index == 0 ? all.all_gather(rows_of(rank, 1, 1)) : all.all_reduce(rows_of(rank, 1, 1));
        Work<Tensor> second =
            rank.index == 0 ? all.all_reduce(rows_of(rank, 1, 1)) : all.all_gather(rows_of(rank, 1, 1));
        first.wait();
        second.wait();
      },
      "rank 0, call 1: all_gather f32[1,1], but rank 1, call 1: all_reduce(sum) f32[1,1]");
}

}  // namespace heddle::test

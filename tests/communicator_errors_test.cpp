// Calls that are wrong, and calls that do not match.
#include <doctest/doctest.h>

#include "parallel/communicator.h"
#include "parallel/shard.h"
#include "parallel/world.h"
#include "tests/support/ranks.h"

namespace heddle {

using namespace test;  // NOLINT(google-build-using-namespace): the ranks and values of this suite

TEST_CASE("wrong arguments are told before anything moves") {
  run_ranks(ranks(2), [](Rank& rank) {
    Communicator& world = rank.world;
    const Tensor x = rows_of(rank, 3, 2);
    const Tensor labels = numbers(rank, {1, 2});
    const auto says = [](const std::function<void()>& action, const std::string& text) {
      CHECK(message_of(action) == text);
    };
    says([&] { world.all_reduce(Tensor()).wait(); }, "all_reduce: expected a tensor, got none");
    says([&] { world.all_reduce(labels).wait(); }, "all_reduce: expected a floating type, got i64[2]");
    says([&] { world.all_gather(x.rows(0, 1).rows(0, 1).reshape({2}).rows(0, 1).reshape({})).wait(); },
         "all_gather: expected rows, got f32[]");
    says([&] { world.broadcast(x, 2).wait(); }, "broadcast: expected a rank in [0, 2), got 2");
    says([&] { world.recv(-1).wait(); }, "recv: expected a rank in [0, 2), got -1");
    says([&] { world.send(x, rank.index).wait(); }, fmt::format("send: rank {0} cannot send to itself", rank.index));
    says([&] { world.all_to_all(std::vector{x}).wait(); }, "all_to_all: expected 2 parts, one for each rank, got 1");
    says([&] { world.reduce_scatter(labels).wait(); }, "reduce_scatter: expected a floating type, got i64[2]");
    says(
        [&] {
          world.reduce_scatter(x, std::vector<std::int64_t>{1, 1}).wait();
        },
        "reduce_scatter: expected 2 numbers of rows that make up f32[3,2], got [1,1]");
    Work<void> once = world.barrier();
    once.wait();
    says([&] { once.wait(); }, fmt::format("rank {}, call 2: barrier: its result was taken before", rank.index));
  });
}

TEST_CASE("calls that do not match are both printed") {
  const auto message = [](int count, const std::function<void(Rank&)>& body) {
    return message_of([&] { run_ranks(ranks(count), body); });
  };
  CHECK(message(2, [](Rank& rank) {
          rank.world.barrier().wait();
          if (rank.index == 0)
            rank.world.all_reduce(rows_of(rank, 4, 2)).wait();
          else
            rank.world.all_gather(rows_of(rank, 4, 2)).wait();
        }) == "calls do not match: rank 0, call 3: all_reduce(sum) f32[4,2], but rank 1, call 3: all_gather f32[4,2]");
  CHECK(message(3, [](Rank& rank) {
          const DType dtype = rank.index == 2 ? DType::f64 : DType::f32;
          rank.world.all_reduce(Tensor::zeros(rank.device, {4}, dtype), Reduction::max).wait();
        }) == "calls do not match: rank 0, call 2: all_reduce(max) f32[4], but rank 2, call 2: all_reduce(max) f64[4]");
  CHECK(message(2, [](Rank& rank) { rank.world.all_gather(rows_of(rank, 1, 2 + rank.index)).wait(); }) ==
        "calls do not match: rank 0, call 2: all_gather f32[1,2], but rank 1, call 2: all_gather f32[1,3]");
  CHECK(message(2, [](Rank& rank) { rank.world.broadcast(rows_of(rank, 1, 2), rank.index).wait(); }) ==
        "calls do not match: rank 0, call 2: broadcast from rank 0 f32[1,2], but rank 1, call 2: broadcast from rank 1 "
        "f32[1,2]");
  CHECK(message(2,
                [](Rank& rank) {
                  const std::vector<std::int64_t> rows{1 + rank.index, 2 - rank.index};
                  rank.world.reduce_scatter(rows_of(rank, 3, 1), rows).wait();
                }) ==
        "calls do not match: rank 0, call 2: reduce_scatter(sum) f32[1,1], f32[2,1], but rank 1, call 2: "
        "reduce_scatter(sum) f32[2,1], f32[1,1]");
}

}  // namespace heddle

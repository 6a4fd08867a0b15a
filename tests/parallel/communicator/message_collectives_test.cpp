// Collectives that are made of messages, beside the communicator's own.
#include "parallel/communicator/message_collectives.h"

#include <cstdint>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/transports.h"

namespace heddle::test::message_collectives_test {

namespace {

using namespace test;  // NOLINT(google-build-using-namespace): the ranks and values of this suite

constexpr std::int64_t width = 3;

/// The rows of a rank: 2, none, 1, 3, ..
std::int64_t rows_of(int rank) {
  constexpr std::int64_t rows[] = {2, 0, 1, 3};
  return rows[static_cast<std::size_t>(rank) % std::size(rows)];
}

std::vector<std::int64_t> rows_of_all(int ranks) {
  std::vector<std::int64_t> rows;
  for (int rank = 0; rank < ranks; ++rank) rows.push_back(rows_of(rank));
  return rows;
}

/// Numbers whose sum depends on the order.
Tensor numbers(Rank& rank, std::int64_t rows, int seed) {
  std::vector<float> all;
  for (std::int64_t i = 0; i < rows * width; ++i)
    all.push_back(1.0F / static_cast<float>(3 + i + 7 * rank.index + seed));
  return Tensor::from_host(rank.device, {rows, width}, all);
}

}  // namespace

TEST_CASE("message collectives give the bits of the communicator's own, also where ranks have no rows") {
  for (const int ranks : {1, 2, 3, 4})
    on_ranks(ranks, [ranks](Rank& rank) {
      Communicator messages = rank.world.split(0);
      const std::vector<std::int64_t> rows = rows_of_all(ranks);
      const Tensor mine = numbers(rank, rows_of(rank.index), 0);
      const Tensor all = numbers(rank, std::accumulate(rows.begin(), rows.end(), std::int64_t{0}), 1);
      MessageCollective gather = MessageCollective::all_gather(messages, mine, rows);
      MessageCollective sum = MessageCollective::all_reduce(messages, all);
      MessageCollective scatter = MessageCollective::reduce_scatter(messages, all, rows);
      const Tensor gathered = rank.world.all_gather(mine);
      const Tensor reduced = rank.world.all_reduce(all, Reduction::sum);
      const Tensor scattered = rank.world.reduce_scatter(all, rows);
      // Results may be taken in any order.
      CHECK(scatter.result().to_host<float>() == scattered.to_host<float>());
      CHECK(gather.result().to_host<float>() == gathered.to_host<float>());
      CHECK(sum.result().to_host<float>() == reduced.to_host<float>());
      for (MessageCollective* call : {&gather, &sum, &scatter}) call->finish();
    });
}

TEST_CASE("a rank has the result of a message collective as soon as all ranks have started it") {
  on_ranks(2, [](Rank& rank) {
    Communicator messages = rank.world.split(0);
    MessageCollective sum = MessageCollective::all_reduce(messages, numbers(rank, 40000, 0));
    if (rank.index == 0) {
      // The other rank waits for a message that this one sends when it has the result.
      const Tensor result = sum.result();
      rank.world.send(result, 1).wait();
    } else {
      const Tensor result = rank.world.recv(0);
      CHECK(sum.result().to_host<float>() == result.to_host<float>());
    }
    sum.finish();
  });
}

TEST_CASE("a message collective holds tensors until it has been finished") {
  on_ranks(2, [](Rank& rank) {
    Communicator messages = rank.world.split(0);
    rank.world.barrier().wait();
    const std::int64_t before = rank.device.meter().live().total();
    const auto held = [&] { return rank.device.meter().live().total() - before; };
    constexpr std::int64_t rows = 40000;
    constexpr std::int64_t bytes = rows * width * 4;
    MessageCollective sum = MessageCollective::all_reduce(messages, numbers(rank, rows, 0));
    CHECK(held() == bytes);
    Tensor result = sum.result();
    CHECK(held() >= bytes);
    sum.finish();
    CHECK(held() == bytes);  // the result
    result = Tensor();
    CHECK(held() == 0);
  });
}

}  // namespace heddle::test::message_collectives_test

#include "parallel/communicator/link_model.h"

#include <array>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/compare/close_to.h"

namespace heddle::test::link_model_test {
namespace {

/// Powers of two, so that the sums below are exact.
constexpr double alpha = 0.25;
constexpr double beta = 0.125;

LinkModel one_node() {
  return {.within_node = {.latency = alpha, .bandwidth = 1 / beta}};
}

/// Nodes of four ranks; between them latency and bytes cost eight times as much.
LinkModel nodes_of_four() {
  return {.within_node = {.latency = alpha, .bandwidth = 1 / beta},
          .between_nodes = {.latency = 8 * alpha, .bandwidth = 1 / (8 * beta)},
          .ranks_per_node = 4};
}

std::vector<int> first_ranks(int count) {
  std::vector<int> ranks(static_cast<std::size_t>(count));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

TEST_CASE("On one node every collective takes its textbook time") {
  const double n = 240;
  for (const int k : {2, 3, 4, 8}) {
    const std::vector<int> ranks = first_ranks(k);
    const auto seconds = [&](Operation operation) { return collective_seconds(one_node(), operation, 240, ranks); };
    const double latency = (k - 1) * alpha;
    const double part = (k - 1) * n / k * beta;
    CHECK(seconds(Operation::all_reduce) == close_to(2 * latency + 2 * part));
    CHECK(seconds(Operation::reduce) == close_to(2 * latency + 2 * part));
    for (const Operation operation : {Operation::all_gather, Operation::reduce_scatter, Operation::all_to_all,
                                      Operation::gather, Operation::scatter})
      CHECK_MESSAGE(seconds(operation) == close_to(latency + part), name_of(operation));
    CHECK(seconds(Operation::broadcast) == close_to(latency + (k - 1) * n * beta));
    CHECK(seconds(Operation::barrier) == close_to(latency));
    CHECK(seconds(Operation::split) == close_to(latency));
  }
}

TEST_CASE("A message takes the latency and the bytes of its link") {
  const LinkModel links = nodes_of_four();
  CHECK(message_seconds(links, 1, 3, 16) == 0.25 + 2);
  CHECK(message_seconds(links, 3, 4, 16) == 2 + 16);
  CHECK(message_seconds(links, 7, 4, 0) == 0.25);
  CHECK(collective_seconds(links, Operation::send, 16, std::array{3, 4}) == 2 + 16);
}

TEST_CASE("Between nodes the busiest rank's messages count") {
  const LinkModel links = nodes_of_four();
  // 8 ranks: each has 3 neighbours on its node (0.25 + 1 each) and 4 on the other (2 + 8 each).
  CHECK(collective_seconds(links, Operation::all_gather, 64, first_ranks(8)) == 3 * 1.25 + 4 * 10);
  CHECK(collective_seconds(links, Operation::all_reduce, 64, first_ranks(8)) == 2 * (3 * 1.25 + 4 * 10));
  // Ranks 0 to 3 and 4: the last one is alone on its node and has four far partners; shares of 5 bytes.
  CHECK(collective_seconds(links, Operation::all_to_all, 25, first_ranks(5)) == close_to(4 * (2 + 5)));
  // All on the second node.
  CHECK(collective_seconds(links, Operation::all_gather, 64, std::array{4, 5, 6, 7}) == 3 * (0.25 + 2));
  // One rank of each of four nodes.
  CHECK(collective_seconds(links, Operation::all_gather, 64, std::array{0, 4, 8, 12}) == 3 * (2 + 16));
}

TEST_CASE("The time of a collective depends only on the numbers of its ranks on the nodes") {
  const std::vector<int> spread_out{1, 2, 5, 6, 8};
  const NodeSpread spread = spread_of(nodes_of_four(), spread_out);
  CHECK(spread == NodeSpread{.ranks = 5, .on_a_node = {1, 2}});
  CHECK(spread == spread_of(nodes_of_four(), std::vector<int>{12, 17, 16, 21, 20}));
  CHECK(spread_of(one_node(), spread_out) == NodeSpread{.ranks = 5, .on_a_node = {5}});
  for (const Operation operation : {Operation::all_reduce, Operation::all_gather, Operation::broadcast})
    CHECK(collective_seconds(nodes_of_four(), operation, 240, spread) ==
          collective_seconds(nodes_of_four(), operation, 240, spread_out));
}

TEST_CASE("A rank alone communicates in no time") {
  for (const Operation operation : {Operation::all_reduce, Operation::broadcast, Operation::barrier})
    CHECK(collective_seconds(one_node(), operation, 1 << 20, std::array{0}) == 0);
}

}  // namespace
}  // namespace heddle::test::link_model_test

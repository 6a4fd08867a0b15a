#include "parallel/communicator/link_model.h"

#include <algorithm>
#include <map>
#include <set>

namespace heddle {

namespace {

double seconds(const Link& link, double bytes) {
  return link.latency + bytes / link.bandwidth;
}

/// Seconds that the busiest rank needs for one message of this many bytes to and from every other rank.
double direct_exchange(const LinkModel& links, double bytes, const NodeSpread& spread) {
  double longest = 0;
  for (const int here : spread.on_a_node)
    longest = std::max(longest, (here - 1) * seconds(links.within_node, bytes) +
                                    (spread.ranks - here) * seconds(links.between_nodes, bytes));
  return longest;
}

}  // namespace

double message_seconds(const LinkModel& links, int from, int to, std::int64_t bytes) {
  return seconds(links.link(from, to), static_cast<double>(bytes));
}

double host_transfer_seconds(const LinkModel& links, std::int64_t bytes) {
  return seconds(links.host, static_cast<double>(bytes));
}

NodeSpread spread_of(const LinkModel& links, std::span<const int> world_ranks) {
  std::map<std::int64_t, int> ranks_on_node;
  for (const int rank : world_ranks) ++ranks_on_node[links.node(rank)];
  std::set<int> numbers;
  for (const auto& [node, here] : ranks_on_node) numbers.insert(here);
  return {.ranks = static_cast<int>(world_ranks.size()), .on_a_node = {numbers.begin(), numbers.end()}};
}

double collective_seconds(const LinkModel& links, Operation operation, std::int64_t bytes,
                          std::span<const int> world_ranks) {
  return collective_seconds(links, operation, bytes, spread_of(links, world_ranks));
}

double collective_seconds(const LinkModel& links, Operation operation, std::int64_t bytes, const NodeSpread& spread) {
  const auto whole = static_cast<double>(bytes);
  const double share = whole / std::max(1.0, static_cast<double>(spread.ranks));
  switch (operation) {
    case Operation::all_reduce:
    case Operation::reduce:
      return 2 * direct_exchange(links, share, spread);
    case Operation::all_gather:
    case Operation::reduce_scatter:
    case Operation::all_to_all:
    case Operation::gather:
    case Operation::scatter:
      return direct_exchange(links, share, spread);
    case Operation::broadcast:
    case Operation::send:
    case Operation::recv:
      return direct_exchange(links, whole, spread);
    case Operation::barrier:
    case Operation::split:
      return direct_exchange(links, 0, spread);
  }
  return 0;
}

}  // namespace heddle

// The cost of communication: every message takes latency + bytes / bandwidth of the link that it goes over, within a
// node or between nodes (the alpha-beta model). The planner, the virtual clock and plan share this one model.
//
// A collective is timed as the messages that our transports send: each rank exchanges its share with every other rank
// directly, one message out and one in at a time, and the busiest rank's messages are added up. With k ranks on one
// node, alpha = latency and beta = 1 / bandwidth this gives the textbook's formulas for rings and for the pairwise
// exchange (Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 2005):
//
//   operation                      n: bytes of                             seconds
//   all_reduce, reduce             the tensor                              2 (k-1) alpha + 2 (k-1)/k n beta
//   all_gather                     the result, all ranks' rows               (k-1) alpha +   (k-1)/k n beta
//   reduce_scatter                 one rank's input                          (k-1) alpha +   (k-1)/k n beta
//   all_to_all                     what one rank holds before or after       (k-1) alpha +   (k-1)/k n beta
//   gather, scatter                all parts, the root's own included        (k-1) alpha +   (k-1)/k n beta
//   broadcast                      the tensor; the root serves each in turn  (k-1) alpha +     (k-1) n beta
//   send, recv                     the message, k = 2                              alpha +           n beta
//   barrier, split                 nothing, n = 0                            (k-1) alpha
//
// Over several nodes a rank's messages to its own node take the inner link's alpha and beta, the others the outer's;
// a bandwidth is what one rank gets of it. The arithmetic of reductions costs nothing here.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "parallel/communicator/transport.h"

namespace heddle {

struct Link {
  double latency = 0;    // seconds per message
  double bandwidth = 1;  // bytes per second, > 0
};

struct LinkModel {
  Link within_node{.latency = 5e-6, .bandwidth = 10e9};
  Link between_nodes{.latency = 20e-6, .bandwidth = 1.25e9};
  /// Between the memory of a rank's device and the host's: each rank has its own, which carries one transfer at a time,
  /// in either direction.
  Link host{.latency = 10e-6, .bandwidth = 20e9};
  /// World ranks 0 .. ranks_per_node - 1 are the first node, and so on; 0 puts all on one.
  std::int64_t ranks_per_node = 0;

  std::int64_t node(int world_rank) const { return ranks_per_node == 0 ? 0 : world_rank / ranks_per_node; }
  const Link& link(int from, int to) const { return node(from) == node(to) ? within_node : between_nodes; }
};

/// Seconds from the start of a message between two world ranks to its arrival, when nothing else is under way.
double message_seconds(const LinkModel& links, int from, int to, std::int64_t bytes);

/// Seconds for which a transfer to or from the host's memory occupies its link.
double host_transfer_seconds(const LinkModel& links, std::int64_t bytes);

/// How the ranks of a communicator are spread over the nodes, which is all that the time of a collective depends on.
struct NodeSpread {
  int ranks = 0;
  std::vector<int> on_a_node{};  // the different numbers of them that the nodes have, ascending
  auto operator<=>(const NodeSpread&) const = default;
};
/// The ranks are those of the communicator, in any order.
NodeSpread spread_of(const LinkModel& links, std::span<const int> world_ranks);

/// Seconds from the last rank's call to the end on all. `bytes` is n of the table above; where the parts of an
/// all_to_all, gather or scatter are not equal, k/(k-1) of what the busiest rank sends to or gets from others stands
/// for it. One rank alone takes no time.
double collective_seconds(const LinkModel& links, Operation operation, std::int64_t bytes, const NodeSpread& spread);
double collective_seconds(const LinkModel& links, Operation operation, std::int64_t bytes,
                          std::span<const int> world_ranks);

}  // namespace heddle

// The shortest path through an acyclic graph whose edges cost time and bytes. A budget may bound the bytes of the whole
// path (the resource-constrained shortest path problem).
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace heddle {

/// Compared lexicographically: `second` decides between paths of equal `first`.
struct PathCost {
  double first = 0;
  double second = 0;
  auto operator<=>(const PathCost&) const = default;  // NOLINT(modernize-use-nullptr): clang-tidy 14 misreads it
  static constexpr PathCost infinite() {
    return {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
  }
  PathCost operator+(const PathCost& other) const { return {first + other.first, second + other.second}; }
};

/// Nodes are in topological order: node 0 is the start, the last one the goal.
struct LayeredGraph {
  struct Edge {
    std::uint32_t to = 0;
    std::uint32_t choice = 0;  // a number of the caller's
    PathCost cost{};
    std::int64_t bytes = 0;
  };
  /// For each node the index of its first edge in `edges`, and at the end the number of all edges.
  std::vector<std::size_t> first_edge{};
  std::vector<Edge> edges{};

  std::size_t nodes() const { return first_edge.size() - 1; }
};

struct GraphPath {
  std::vector<std::uint32_t> choices{};  // the choices of its edges
  PathCost cost{};
  std::int64_t bytes = 0;
};

/// The shortest path; of equally short ones, the one whose costs come late. The goal must be reachable.
GraphPath shortest_path(const LayeredGraph& graph);
GraphPath path_of_fewest_bytes(const LayeredGraph& graph);
/// The shortest path within the budget; empty if there is none. Keeps a Pareto front of cost and bytes at each node,
/// pruned by what the rest of the path costs at least and by a Lagrangian bound (Handler and Zang, "A dual algorithm
/// for the constrained shortest path problem", 1980). The result is exact while the fronts hold at most `max_labels`
/// paths; beyond that it is within 0.01 %, 0.1 % or 1 % of the shortest path, and in the last resort the best path that
/// the search for the bound has found.
std::optional<GraphPath> shortest_path_within(const LayeredGraph& graph, std::int64_t budget, std::size_t max_labels);

}  // namespace heddle

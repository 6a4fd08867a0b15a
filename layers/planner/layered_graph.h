// The shortest path through a graph without cycles, where each edge costs time and takes bytes, and a budget may bound
// the bytes of the whole path (the resource-constrained shortest path problem).
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace heddle {

/// Compared member by member: `second` decides between paths of equal `first`.
struct PathCost {
  double first = 0;
  double second = 0;
  auto operator<=>(const PathCost&) const = default;  // NOLINT(modernize-use-nullptr): clang-tidy 14 misreads it
  PathCost operator+(const PathCost& other) const { return {first + other.first, second + other.second}; }
};

/// Nodes come in topological order: node 0 is the start, the last one the goal.
struct LayeredGraph {
  struct Edge {
    std::uint32_t to = 0;
    std::uint32_t choice = 0;  // the caller's
    PathCost cost{};
    std::int64_t bytes = 0;
  };
  /// Of each node its first edge in `edges`, and the number of all edges at the end.
  std::vector<std::size_t> first_edge{};
  std::vector<Edge> edges{};

  std::size_t nodes() const { return first_edge.size() - 1; }
};

struct GraphPath {
  std::vector<std::uint32_t> choices{};  // of its edges
  PathCost cost{};
  std::int64_t bytes = 0;
};

/// Of equal paths the one that pays late. The goal can be reached.
GraphPath shortest_path(const LayeredGraph& graph);
GraphPath path_of_fewest_bytes(const LayeredGraph& graph);
/// The shortest of the paths within the budget; none if there is none. A Pareto front of cost and bytes at each node,
/// cut by what the rest must take at least and by a Lagrangian bound (Handler and Zang, "A dual algorithm for the
/// constrained shortest path problem", 1980). Exact while the fronts hold 200,000 ways; past that within 0.01 % of the
/// shortest, or 0.1, 1 %, and at last the best path that the bound's search met.
std::optional<GraphPath> shortest_path_within(const LayeredGraph& graph, std::int64_t budget);

}  // namespace heddle

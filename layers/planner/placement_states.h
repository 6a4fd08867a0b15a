// The planner's problem in numbers, and the graph whose paths are the possible placements: a node is a state of the
// values that are alive between two layers, an edge is a choice for one layer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "layers/planner/layered_graph.h"

namespace heddle {

struct PlacementProblem {
  struct Choice {
    /// The placement of each input: an index below Step::wanted of the step that makes it.
    std::vector<std::size_t> wanted{};
    std::size_t made = 0;  ///< the placement of what is made
    PathCost cost{};
    std::int64_t bytes = 0;
  };
  /// A layer. Steps are in the order in which the layers run; step i makes value i.
  struct Step {
    std::vector<std::size_t> inputs{};  // values
    std::vector<Choice> choices{};
    std::size_t wanted = 0;               // the number of placements in which readers want its output
    std::vector<PathCost> conversions{};  // [made, wanted]: the cost of the redistribution, once for all its readers
    std::vector<std::int64_t> kept{};     // [wanted]: the bytes held if any layer reads it in this placement
  };
  std::vector<Step> steps{};
  bool counts_bytes = false;  // whether the edges of the graph count bytes, for which it has more states

  /// What the choices of a path hold.
  std::int64_t bytes_of(const GraphPath& path) const;
};

/// The graph has paths of `problem.steps.size()` edges; an edge's choice is that of its step. If there are more than
/// `max_states` states after a step, the cheapest are kept. States through which every path costs more than `max_cost`
/// are left out; empty if no path is left.
std::optional<LayeredGraph> graph_of(const PlacementProblem& problem, std::size_t max_states,
                                     const PathCost& max_cost = PathCost::infinite());

}  // namespace heddle

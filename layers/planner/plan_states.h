// The planner's problem in numbers, and the graph whose paths are its plans: a node is what has to be known of the
// values alive between two layers, an edge is what one layer does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "layers/planner/layered_graph.h"

namespace heddle {

struct PlanProblem {
  struct Choice {
    std::vector<std::size_t> wanted{};  // the placement of each input, by Step::wanted of the step that makes it
    std::size_t made = 0;               // the placement of what is made
    PathCost cost{};
    std::int64_t bytes = 0;
  };
  /// A layer, in the order in which they run; step i makes value i.
  struct Step {
    std::vector<std::size_t> inputs{};  // values
    std::vector<Choice> choices{};
    std::size_t wanted = 0;               // in how many placements readers want what is made
    std::vector<PathCost> conversions{};  // [made, wanted]: the way from one to the other, once for all its readers
    std::vector<std::int64_t> kept{};     // [wanted]: bytes held if anyone reads it there
  };
  std::vector<Step> steps{};
  bool counts_bytes = false;
};

/// Paths of `problem.steps.size()` edges; an edge's choice is that of its step. Past `most_states` states after a step
/// the cheapest are followed.
LayeredGraph graph_of(const PlanProblem& problem, std::size_t most_states);

}  // namespace heddle

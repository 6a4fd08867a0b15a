// Which collectives turn one placement into another, and what they cost: values only, no tensor. One axis changes at a
// time, by this table for the value, and from `to` back to `from` for the gradient:
//
//   S(a) -> S(b)  all_to_all        P -> R  all_reduce        R -> S  own slice               R -> R, P -> P  nothing
//   S -> R        all_gather        P -> S  reduce_scatter    S -> P  own slice among zeros
//                                                             R -> P  the axis' first rank keeps it, zeros elsewhere
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "framework/tensors/dtype.h"
#include "parallel/communicator/link_model.h"
#include "parallel/placement/placement.h"

namespace heddle {

/// What happens to the value, or to the gradient, along one axis.
struct Distribution {
  Spread spread = Spread::replicated;
  std::optional<int> dimension{};  // of a shard
  bool operator==(const Distribution&) const = default;
};
constexpr Distribution value_distribution(const Placement& placement) {
  return {placement.value(), placement.dimension()};
}
constexpr Distribution gradient_distribution(const Placement& placement) {
  return {placement.gradient(), placement.dimension()};
}
/// The table's collective, if there is any.
std::optional<Operation> operation_between(const Distribution& from, const Distribution& to);

struct RedistributionStep {
  Axis axis = Axis::dp;
  Placement from;
  Placement to;
  bool operator==(const RedistributionStep&) const = default;
};
/// `tp: S(0) -> R`.
std::string to_string(const RedistributionStep& step);

/// The steps with the fewest bytes sent, forward and backward together, and of these the fewest steps. An axis cannot
/// change a dimension that inner axes (see Placements) cut further: these change first, and come back after it.
std::vector<RedistributionStep> redistribution_steps(const Placements& from, const Placements& to, const Mesh& mesh);

/// What one rank hands to the transport in one step: the bytes that its ByteCounter counts.
struct StepTraffic {
  RedistributionStep step;
  std::optional<Operation> forward;
  std::optional<Operation> backward;
  std::int64_t forward_bytes = 0;
  std::int64_t backward_bytes = 0;
};
std::vector<StepTraffic> redistribution_traffic(const Shape& whole, DType dtype, const Placements& from,
                                                const Placements& to, const Mesh& mesh, const Mesh::Coordinates& at);

/// Seconds of all steps, each as slow as the slowest of the groups that take it at the same time.
struct RedistributionSeconds {
  double forward = 0;
  double backward = 0;
};
RedistributionSeconds redistribution_seconds(const LinkModel& links, const Shape& whole, DType dtype,
                                             const Placements& from, const Placements& to, const Mesh& mesh);

}  // namespace heddle

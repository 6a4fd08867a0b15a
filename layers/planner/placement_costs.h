// The costs of a placement for a rank in a training step, computed from shapes alone: the time of collectives by the
// link model, the time of computing by the device's profile, and the bytes held. The planner minimises these figures,
// and `explain` prints them.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <vector>

#include "framework/backends/backend.h"
#include "framework/description/enum_table.h"
#include "layers/planner/model_placement.h"
#include "layers/precision.h"
#include "parallel/communicator/link_model.h"
#include "parallel/placement/redistribution_steps.h"

namespace heddle {

/// How much is kept while placements are searched for (place).
struct PlannerEffort {
  std::size_t max_states = 50'000;   // after each layer
  std::size_t max_labels = 200'000;  // of paths within a budget (shortest_path_within)
};
/// Takes a tenth of the time. Without a budget, vision transformers and ResNets have the same placements with it.
inline constexpr PlannerEffort quick_planning{.max_states = 100, .max_labels = 2'000};

struct PlannerOptions {
  Mesh mesh{};
  std::int64_t samples = 1;  // the samples of a micro-batch, over all its ranks
  std::int64_t micro_batches = 1;
  LinkModel links{};
  DeviceProfile profile{};
  Precision precision{};
  /// The number of tensors of a parameter's shape and type that the optimizer keeps: 1 for momentum, 2 for Adam.
  std::int64_t optimizer_states = 1;
  /// Whether an average of each trained parameter is kept, in its compute type.
  bool averages_weights = false;
  /// The bytes per element of a step in f32, which reads the gradient, and reads and writes the weight and the states.
  /// An average is then read and written, and the weight is read again.
  double update_bytes() const {
    return static_cast<double>(3 + 2 * optimizer_states + (averages_weights ? 3 : 0)) * sizeof(float);
  }
  /// Whether states and averages are sharded over the ranks that sum a parameter's gradient (ZeRO-1).
  bool shards_optimizer = false;
  /// The bytes of the model that a rank may hold, or the ranks of a pipeline together.
  std::optional<std::int64_t> memory_budget{};
  /// Every layer may be placed in any way along every axis, whatever the user requested.
  bool automatic = false;
  PlannerEffort effort{};
};

/// The kind of data that a collective carries.
enum class Payload { activations, weights, gradients, statistics };
template <>
inline constexpr auto enum_names<Payload> = enum_table<Payload>({
    {Payload::activations, "activations"},
    {Payload::weights, "weights"},
    {Payload::gradients, "gradients"},
    {Payload::statistics, "statistics"},
});
inline constexpr std::span<const std::string_view> payload_names = enum_names<Payload>.rows();
template <class T>
using PerPayload = std::array<T, enumerator_count<Payload>()>;

/// Figures for one step, all micro-batches together.
struct CollectiveCost {
  Payload payload = Payload::activations;
  Operation operation = Operation::all_reduce;
  AxisSet axes{};
  /// The bytes that rank 0 passes to the transport; for a gather to rank 0, the bytes that each other rank passes.
  std::int64_t bytes = 0;
  double seconds = 0;  ///< for the slowest group of ranks
};

/// One step of the redistribution of a value from one placement to another.
struct RedistributionStepCost {
  RedistributionStep step{};
  std::optional<CollectiveCost> forward{};
  std::optional<CollectiveCost> backward{};  // empty if no gradient flows
};

struct LayerCosts {
  std::vector<CollectiveCost> collectives{};  // except for conversions of its inputs
  std::int64_t parameters = 0;                // elements that a rank keeps
  std::int64_t bytes = 0;                     // of the parameters, their gradients and the optimizer's state
  double flops = 0;                           // of a rank
  double seconds = 0;                         // of computing
};

/// These are estimates: sums of gradients are timed layer by layer, and nothing overlaps with computing. All times are
/// multiples of 2^-40 s, so that sums of them are exact up to two hours and do not depend on their order.
class PlacementCosts {
 public:
  PlacementCosts(const ModelSpec& model, const PlannerOptions& options);

  LayerCosts layer(std::size_t application, const PerAxis<LayerOption>& options) const;
  CollectiveCost cost(Payload payload, const LayerCollective& collective) const;
  /// The seconds of a step on a rank that does this number of operations and moves this number of bytes in each
  /// micro-batch.
  double computing_seconds(double flops, double bytes) const;
  const std::vector<RedistributionStepCost>& redistribution(int value, const Placements& from, const Placements& to);
  double conversion_seconds(int value, const Placements& from, const Placements& to);
  /// The bytes of a value in one placement that are kept for the backward pass of one micro-batch.
  std::int64_t kept_bytes(int value, const Placements& where) const;
  /// The seconds in which a rank reads its part of the model's input.
  double loading_seconds(const Placements& input) const;

 private:
  using RedistributionKey = std::tuple<std::vector<std::int64_t>, bool, int, int>;

  double seconds(Operation operation, std::int64_t bytes, AxisSet axes) const;
  /// The ways in which groups of ranks along these axes are spread over the nodes.
  const std::vector<NodeSpread>& spreads(AxisSet axes) const;
  CollectiveCost cost_of(Payload payload, const LayerCollective& collective, std::int64_t times) const;
  double local_flops(const ModelSpec::Application& application, const LayerLayout& layout) const;
  /// `gives_gradient`: whether the gradient of an input is wanted.
  void add_parameters(const LayerSpec& layer, const LayerLayout& layout, bool gives_gradient, LayerCosts& costs) const;
  /// Adds the cost of the optimizer's step for elements of this type, whose gradients are summed along these axes.
  void add_step(AxisSet axes, DType kept, std::int64_t elements, LayerCosts& costs) const;
  std::vector<RedistributionStepCost> redistribution_cost(int value, const Placements& from,
                                                          const Placements& to) const;

  const ModelSpec& model_;
  PlannerOptions options_;
  mutable std::array<std::vector<NodeSpread>, AxisSet::count> spreads_;  // by AxisSet::index(), when first asked for
  std::map<RedistributionKey, std::vector<RedistributionStepCost>> redistributions_;
};

/// A number that is different for every placement.
int code_of(const Placements& placements);

}  // namespace heddle

// What a placement costs a rank in a training step, from shapes alone: collectives by the link model, arithmetic by the
// device's profile, bytes held. The planner minimises these figures, `explain` prints them.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include "framework/backends/backend.h"
#include "layers/planner/placement_plan.h"
#include "layers/precision.h"
#include "parallel/communicator/link_model.h"
#include "parallel/placement/redistribution.h"

namespace heddle {

struct PlannerOptions {
  Mesh mesh{};
  std::int64_t samples = 1;  // of a micro-batch, over all its ranks
  std::int64_t micro_batches = 1;
  LinkModel links{};
  DeviceProfile profile{};
  Precision precision{};
  /// Tensors like a parameter that the optimizer keeps, of its type: 1 for momentum, 2 for Adam.
  std::int64_t optimizer_states = 1;
  /// These are shared out over the ranks that sum a parameter's gradient (ZeRO-1).
  bool shards_optimizer = false;
  /// Bytes that a rank may hold of the model.
  std::optional<std::int64_t> memory_budget{};
  /// Every layer may be anything along every axis, whatever was wished.
  bool automatic = false;
};

/// What is on its way in a collective.
enum class Cargo { activations, weights, gradients, statistics };
inline constexpr std::array<std::string_view, 4> cargo_names{"activations", "weights", "gradients", "statistics"};
template <class T>
using PerCargo = std::array<T, cargo_names.size()>;

/// Figures of a step, all micro-batches together.
struct PlannedCollective {
  Cargo cargo = Cargo::activations;
  Operation operation = Operation::all_reduce;
  AxisSet axes{};
  std::int64_t bytes = 0;  // that rank 0 hands to the transport; of a gather, where it is the root, another rank
  double seconds = 0;      // of the slowest group of ranks
};

/// One step of a value's way from one placement to another.
struct PlannedConversion {
  RedistributionStep step{};
  std::optional<PlannedCollective> forward{};
  std::optional<PlannedCollective> backward{};  // none where no gradient flows
};

struct LayerCosts {
  std::vector<PlannedCollective> collectives{};  // but for conversions of its inputs
  std::int64_t parameters = 0;                   // elements that a rank keeps
  std::int64_t bytes = 0;                        // of these, their gradients and the optimizer's state
  double flops = 0;                              // of a rank
  double seconds = 0;                            // of computing
};

/// Estimates where a run decides: gradient sums are timed layer by layer, and nothing overlaps with computing. All
/// times are multiples of 2^-40 s, so that sums of them are exact and do not depend on their order.
class PlanCosts {
 public:
  PlanCosts(const ModelDescription& model, const PlannerOptions& options);

  LayerCosts layer(std::size_t application, const PerAxis<LayerOption>& options) const;
  PlannedCollective exchange(Cargo cargo, const LayerExchange& exchange) const;
  /// Seconds a step of a rank that does so many operations and moves so many bytes in a micro-batch.
  double computing_seconds(double flops, double bytes) const;
  const std::vector<PlannedConversion>& conversion(int value, const Placements& from, const Placements& to);
  double conversion_seconds(int value, const Placements& from, const Placements& to);
  /// Of a value in one placement, which backward needs again; one micro-batch is under way at a time.
  std::int64_t kept_bytes(int value, const Placements& where) const;
  /// The time in which a rank reads its part of the model's input.
  double loading_seconds(const Placements& input) const;

 private:
  using ConversionKey = std::tuple<std::vector<std::int64_t>, bool, int, int>;

  double seconds(Operation operation, std::int64_t bytes, AxisSet axes) const;
  PlannedCollective collective(Cargo cargo, const LayerExchange& exchange, std::int64_t times) const;
  double local_flops(const ModelDescription::Application& application, const LayerLayout& layout) const;
  void add_parameters(const LayerDescription& layer, const LayerLayout& layout, LayerCosts& costs) const;
  /// What the step of elements of a type costs, whose gradients are summed along these axes.
  void add_step(AxisSet axes, DType kept, std::int64_t elements, LayerCosts& costs) const;
  std::vector<PlannedConversion> convert(int value, const Placements& from, const Placements& to) const;

  const ModelDescription& model_;
  PlannerOptions options_;
  /// By AxisSet::index(): groups of ranks, one of each way to lie on the nodes.
  std::array<std::vector<std::vector<int>>, 8> groups_;
  std::map<ConversionKey, std::vector<PlannedConversion>> conversions_;
};

/// A number that is another for every placement.
int code_of(const Placements& placements);

}  // namespace heddle

#include "layers/planner/placement_costs.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace heddle {

namespace {

double rounded(double seconds) {
  constexpr int bits = 40;
  return std::ldexp(std::nearbyint(std::ldexp(seconds, bits)), -bits);
}

std::int64_t bytes_of(const Shape& shape, DType dtype) {
  return shape.numel() * static_cast<std::int64_t>(size_of(dtype));
}

double ratio(const Shape& part, const Shape& whole) {
  return static_cast<double>(part.numel()) / static_cast<double>(std::max<std::int64_t>(whole.numel(), 1));
}

/// What rank 0 of k ranks passes to the transport. Its shard is no smaller than the others.
std::int64_t sent_elements(Operation operation, std::int64_t elements, int k) {
  const std::int64_t mine = shard(elements, k, 0).size;
  if (operation == Operation::all_gather) return (k - 1) * mine;
  if (operation == Operation::reduce_scatter || operation == Operation::all_to_all) return elements - mine;
  if (operation == Operation::gather) return 0;  // it receives what is gathered
  if (operation == Operation::broadcast) return (k - 1) * elements;
  if (operation == Operation::scatter) return elements - mine;
  return elements - mine + (k - 1) * mine;  // all_reduce
}

}  // namespace

int code_of(const Placements& placements) {
  constexpr int kinds = 3 + Shape::max_rank;
  int code = 0;
  for (const Placement& placement : placements.values) {
    int kind = placement.gradient() == Spread::partial ? 1 : 0;
    if (placement.value() == Spread::partial) kind = 2;
    if (placement.value() == Spread::sharded) kind = 3 + *placement.dimension();
    code = code * kinds + kind;
  }
  return code;
}

PlacementCosts::PlacementCosts(const ModelSpec& model, const PlannerOptions& options)
    : model_(model), options_(options) {}

const std::vector<NodeSpread>& PlacementCosts::spreads(AxisSet axes) const {
  std::vector<NodeSpread>& known = spreads_[axes.index()];
  if (!known.empty()) return known;
  const Mesh& mesh = options_.mesh;
  std::set<NodeSpread> different;
  for (int rank = 0; rank < mesh.size(); ++rank)
    if (mesh.first_over(axes, rank) == rank) different.insert(spread_of(options_.links, mesh.ranks_over(axes, rank)));
  known.assign(different.begin(), different.end());
  return known;
}

double PlacementCosts::seconds(Operation operation, std::int64_t bytes, AxisSet axes) const {
  double slowest = 0;
  for (const NodeSpread& spread : spreads(axes))
    slowest = std::max(slowest, collective_seconds(options_.links, operation, bytes, spread));
  return rounded(slowest);
}

CollectiveCost PlacementCosts::cost_of(Payload payload, const LayerCollective& collective, std::int64_t times) const {
  const auto size = static_cast<std::int64_t>(size_of(collective.dtype));
  const std::int64_t sent = collective.sent.value_or(
      sent_elements(collective.operation, collective.elements, options_.mesh.size(collective.axes)));
  return {payload, collective.operation, collective.axes, sent * size * times,
          seconds(collective.operation, collective.elements * size, collective.axes) * static_cast<double>(times)};
}

CollectiveCost PlacementCosts::cost(Payload payload, const LayerCollective& collective) const {
  const std::int64_t traversals = collective.when == LayerCollective::When::step_end ? 1 : options_.micro_batches;
  return cost_of(payload, collective, collective.times * traversals);
}

double PlacementCosts::computing_seconds(double flops, double bytes) const {
  return rounded(std::max(flops / options_.profile.flops_per_second, bytes / options_.profile.bytes_per_second)) *
         static_cast<double>(options_.micro_batches);
}

double PlacementCosts::local_flops(const ModelSpec::Application& application, const LayerLayout& layout) const {
  const std::vector<Shape> inputs = model_.input_shapes(application, options_.samples);
  const Shape output = application.layer->output(inputs);
  double flops =
      application.layer->flops(inputs) * ratio(local_shape(output, layout.output(), layout.mesh, {}), output);
  // There are as many partial sums as elements of the output, but each has fewer terms.
  Placements rows;
  layout.axes(Parallel::row).for_each([&](Axis axis) { rows[axis] = layout.options[axis].inputs[0]; });
  return flops * ratio(local_shape(inputs[0], rows, layout.mesh, {}), inputs[0]);
}

void PlacementCosts::add_parameters(const LayerSpec& layer, const LayerLayout& layout, bool gives_gradient,
                                    LayerCosts& costs) const {
  using When = LayerCollective::When;
  const DType computed = options_.precision.activations;
  // The elements whose gradients are summed over the same axes.
  std::array<std::map<DType, std::int64_t>, AxisSet::count> sums{};
  const std::vector<Shape> shapes = layer.parameters();
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const ParameterPart part = layout.part(i, shapes[i]);
    const DType kept = options_.precision.of_parameter(shapes[i]);
    const std::int64_t held = part.held_shape().numel();
    costs.parameters += held;
    const bool is_trained = layer.trains(i);  // then it has a gradient
    costs.bytes += (is_trained ? 2 : 1) * held * static_cast<std::int64_t>(size_of(kept));
    if (is_trained) sums[part.partial.index()][kept] += held;
    if (!part.gathered) continue;
    const std::int64_t whole = part.shape().numel();
    const AxisSet axes{*part.gathered};
    const CollectiveCost gather = cost(Payload::weights, {When::forward, Operation::all_gather, axes, whole, computed});
    costs.collectives.push_back(gather);
    // The backward gathers only what it multiplies by, so no bias.
    if (shapes[i].rank() > 1 && (is_trained || gives_gradient)) costs.collectives.push_back(gather);
    if (!is_trained) continue;
    costs.collectives.push_back(
        cost(Payload::gradients, {When::backward, Operation::reduce_scatter, axes, whole, kept}));
  }
  for (unsigned index = 0; index < sums.size(); ++index)
    for (const auto& [kept, elements] : sums[index]) add_step(AxisSet::of_index(index), kept, elements, costs);
}

void PlacementCosts::add_step(AxisSet axes, DType kept, std::int64_t elements, LayerCosts& costs) const {
  const bool is_sharded = options_.shards_optimizer && !axes.empty();
  const std::int64_t stepped = is_sharded ? shard(elements, options_.mesh.size(axes), 0).size : elements;
  costs.bytes += options_.optimizer_states * stepped * static_cast<std::int64_t>(size_of(kept));
  if (options_.averages_weights) costs.bytes += stepped * static_cast<std::int64_t>(size_of(compute_dtype(kept)));
  if (axes.empty() || elements == 0) return;
  const auto add = [&](Payload payload, Operation operation) {
    costs.collectives.push_back(cost(payload, {LayerCollective::When::step_end, operation, axes, elements, kept}));
  };
  if (!is_sharded) return add(Payload::gradients, Operation::all_reduce);
  add(Payload::gradients, Operation::reduce_scatter);
  add(Payload::weights, Operation::all_gather);
}

LayerCosts PlacementCosts::layer(std::size_t index, const PerAxis<LayerOption>& options) const {
  const ModelSpec::Application& application = model_.applications()[index];
  const LayerSpec& layer = *application.layer;
  const LayerLayout layout{options_.mesh, {}, options, model_.input_shapes(application, 1)};
  LayerCosts costs;
  const bool gives_gradient = model_.gives_gradient(application);
  add_parameters(layer, layout, gives_gradient, costs);
  for (const LayerCollective& own : layer.collectives(layout, options_.precision.activations, options_.micro_batches))
    costs.collectives.push_back(cost(Payload::statistics, own));
  // The backward does the same work once for the inputs' gradients and once for the weights'.
  const int passes = 1 + ModelSpec::trains_parameters(application) + gives_gradient;
  std::int64_t touched = kept_bytes(static_cast<int>(index) + 1, layout.output());
  for (std::size_t i = 0; i < application.inputs.size(); ++i)
    touched += kept_bytes(application.inputs[i], layout.input(i));
  const double flops = local_flops(application, layout) * passes;
  costs.flops = flops * static_cast<double>(options_.micro_batches);
  costs.seconds = computing_seconds(flops, static_cast<double>(touched) * passes);
  return costs;
}

const std::vector<RedistributionStepCost>& PlacementCosts::redistribution(int value, const Placements& from,
                                                                          const Placements& to) {
  const auto dimensions = model_.sample(value).dimensions();
  RedistributionKey key{{dimensions.begin(), dimensions.end()}, model_.has_gradient(value), code_of(from), code_of(to)};
  const auto known = redistributions_.find(key);
  if (known != redistributions_.end()) return known->second;
  return redistributions_.emplace(std::move(key), redistribution_cost(value, from, to)).first->second;
}

std::vector<RedistributionStepCost> PlacementCosts::redistribution_cost(int value, const Placements& from,
                                                                        const Placements& to) const {
  const Shape whole = model_.shape(value, options_.samples);
  const auto traversals = static_cast<double>(options_.micro_batches);
  std::vector<RedistributionStepCost> steps;
  Placements where = normalized(from, options_.mesh);
  for (const StepTraffic& traffic :
       redistribution_traffic(whole, options_.precision.activations, from, to, options_.mesh, {})) {
    Placements next = where;
    next[traffic.step.axis] = traffic.step.to;
    const RedistributionSeconds times =
        redistribution_seconds(options_.links, whole, options_.precision.activations, where, next, options_.mesh);
    const auto planned = [&](Operation operation, std::int64_t bytes, double each) {
      return CollectiveCost{Payload::activations,
                            operation,
                            {traffic.step.axis},
                            bytes * options_.micro_batches,
                            rounded(each) * traversals};
    };
    RedistributionStepCost cost{.step = traffic.step};
    if (traffic.forward) cost.forward = planned(*traffic.forward, traffic.forward_bytes, times.forward);
    if (traffic.backward && model_.has_gradient(value))
      cost.backward = planned(*traffic.backward, traffic.backward_bytes, times.backward);
    steps.push_back(cost);
    where = next;
  }
  return steps;
}

double PlacementCosts::conversion_seconds(int value, const Placements& from, const Placements& to) {
  double sum = 0;
  for (const RedistributionStepCost& step : redistribution(value, from, to)) {
    if (step.forward) sum += step.forward->seconds;
    if (step.backward) sum += step.backward->seconds;
  }
  return sum;
}

std::int64_t PlacementCosts::kept_bytes(int value, const Placements& where) const {
  return bytes_of(local_shape(model_.shape(value, options_.samples), where, options_.mesh, {}),
                  options_.precision.activations);
}

double PlacementCosts::loading_seconds(const Placements& input) const {
  return computing_seconds(0, static_cast<double>(kept_bytes(0, input)));
}

}  // namespace heddle

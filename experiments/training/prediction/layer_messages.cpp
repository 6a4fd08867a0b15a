#include "experiments/training/prediction/layer_messages.h"

#include <algorithm>

#include "experiments/training/planning/model_layout.h"

namespace heddle {

namespace {

/// The gradients that are summed once in a step, and the optimizer's part of the parameters.
LayerMessages of_step_end(const LayerSpec& layer, const LayerLayout& layout, const PlannerOptions& options) {
  LayerMessages messages;
  const std::vector<Shape> shapes = layer.parameters();
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    if (!layer.trains(i)) continue;
    const ParameterPart part = layout.part(i, shapes[i]);
    const std::int64_t held = part.held_shape().numel();
    const int copies = options.mesh.size(part.partial);
    messages.stepped += static_cast<double>(held) / (options.shards_optimizer ? copies : 1);
    if (copies > 1)
      messages.summed.at(part.partial.index()) +=
          held * static_cast<std::int64_t>(size_of(options.precision.of_parameter(shapes[i])));
  }
  return messages;
}

/// Whether a collective of a layer belongs to the sums at the step's end.
bool is_of_step_end(const CollectiveCost& collective, const LayerMessages& layer, const PlannerOptions& options) {
  if (layer.summed.at(collective.axes.index()) == 0) return false;
  const bool is_sum = collective.payload == Payload::gradients && collective.operation == Operation::all_reduce;
  const bool is_of_shards = collective.payload == Payload::gradients || collective.payload == Payload::weights;
  return is_sum || (options.shards_optimizer && is_of_shards);
}

}  // namespace

std::vector<LayerMessages> layer_messages(const ModelSpec& model, const ModelPlacement& placement,
                                          const PlannerOptions& options, const PlacementReport& report) {
  const auto micro_batches = static_cast<double>(options.micro_batches);
  std::vector<LayerMessages> messages;
  for (std::size_t i = 0; i < report.layers.size(); ++i) {
    LayerMessages& layer =
        messages.emplace_back(of_step_end(*model.applications()[i].layer, placement.layout(model, i, {}), options));
    layer.computing = report.layers[i].seconds;
    for (const CollectiveCost& collective : report.layers[i].collectives) {
      if (is_of_step_end(collective, layer, options)) continue;
      layer.forward += collective.seconds / micro_batches / 2;
      layer.backward += collective.seconds / micro_batches / 2;
    }
  }
  for (const RedistributionCost& redistribution : report.redistributions) {
    LayerMessages& reader = messages[std::min(redistribution.reader, messages.size() - 1)];
    for (const RedistributionStepCost& step : redistribution.steps) {
      if (step.forward) reader.forward += step.forward->seconds / micro_batches;
      if (step.backward) reader.backward += step.backward->seconds / micro_batches;
    }
  }
  return messages;
}

std::vector<LayerMessages> layer_messages(const Experiment& experiment, const RunPlan& plan) {
  const PlannerOptions options = planner_options(experiment, *plan.model, plan.placement->mesh);
  return layer_messages(*plan.model, *plan.placement, options, placement_report(*plan.model, *plan.placement, options));
}

}  // namespace heddle

#include <nlohmann/json.hpp>

#include "experiments/program/explain/explanation.h"
#include "framework/description/describe.h"

namespace heddle {

namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson placements_json(const Placements& placements, const Mesh& mesh) {
  OrderedJson json = OrderedJson::object();
  mesh.larger_than_one({Axis::dp, Axis::tp}).for_each([&](Axis axis) {
    json[std::string(name_of(axis))] = to_string(placements[axis]);
  });
  return json;
}

OrderedJson collective_json(const CollectiveCost& collective) {
  OrderedJson axes = OrderedJson::array();
  collective.axes.for_each([&](Axis axis) { axes.push_back(name_of(axis)); });
  return {{"operation", name_of(collective.operation)},
          {"of", payload_names[static_cast<std::size_t>(collective.payload)]},
          {"over", axes},
          {"bytes", collective.bytes},
          {"seconds", collective.seconds}};
}

OrderedJson costs_json(OrderedJson json, const LayerCosts& costs) {
  json["parameters"] = costs.parameters;
  json["flops"] = costs.flops;
  json["seconds"] = costs.seconds;
  json["collectives"] = OrderedJson::array();
  for (const CollectiveCost& collective : costs.collectives) json["collectives"].push_back(collective_json(collective));
  return json;
}

OrderedJson layer_json(const Explanation& e, std::size_t index) {
  const ModelSpec::Application& application = e.model.applications()[index];
  OrderedJson parallel = OrderedJson::object();
  e.options.mesh.larger_than_one({Axis::dp, Axis::tp}).for_each([&](Axis axis) {
    const Parallel kind = e.placement.layers[index][axis].kind;
    parallel[std::string(name_of(axis))] = name_of(kind);
  });
  return costs_json({{"layer", application.name},
                     {"type", application.layer->type()},
                     {"stage", stage_of(e, index)},
                     {"parallel", parallel},
                     {"output", placements_json(e.placement.made(static_cast<int>(index) + 1), e.options.mesh)}},
                    e.report.layers[index]);
}

OrderedJson redistribution_json(const Explanation& e, const RedistributionCost& redistribution) {
  const auto& applications = e.model.applications();
  const auto optional = [](const std::optional<CollectiveCost>& collective) {
    return collective ? collective_json(*collective) : OrderedJson(nullptr);
  };
  OrderedJson steps = OrderedJson::array();
  for (const RedistributionStepCost& step : redistribution.steps)
    steps.push_back({{"axis", name_of(step.step.axis)},
                     {"from", to_string(step.step.from)},
                     {"to", to_string(step.step.to)},
                     {"forward", optional(step.forward)},
                     {"backward", optional(step.backward)}});
  return {{"value", value_name(e, redistribution.value)},
          {"reader", redistribution.reader == applications.size() ? "head" : applications[redistribution.reader].name},
          {"from", placements_json(redistribution.from, e.options.mesh)},
          {"to", placements_json(redistribution.to, e.options.mesh)},
          {"steps", steps}};
}

OrderedJson traffic_json(const PlacementTotals::Traffic& traffic) {
  return {{"bytes", traffic.bytes}, {"seconds", traffic.seconds}};
}

OrderedJson totals_json(const PlacementTotals& totals) {
  OrderedJson json;
  for (std::size_t payload = 0; payload < payload_names.size(); ++payload)
    json[std::string(payload_names[payload])] = traffic_json(totals.traffic[payload]);
  json["communication"] = traffic_json(totals.communication());
  json["computing"] = {{"seconds", totals.computing_seconds}};
  json["memory"] = {
      {"parameters", totals.parameter_bytes}, {"activations", totals.activation_bytes}, {"total", totals.bytes()}};
  return json;
}

OrderedJson stages_json(const Explanation& e) {
  OrderedJson stages = OrderedJson::array();
  for (std::size_t s = 0; s < e.stages.size(); ++s) {
    const ExplainedStage& stage = e.stages[s];
    stages.push_back({{"stage", s},
                      {"pp", stage.rank},
                      {"first_layer", e.model.applications()[static_cast<std::size_t>(stage.layers.begin)].name},
                      {"layers", stage.layers.size},
                      {"parameters", stage.parameters},
                      {"seconds", stage.seconds},
                      {"memory", stage.bytes}});
    if (stage.second_rank) stages.back()["second_pp"] = *stage.second_rank;
  }
  return stages;
}

OrderedJson cuts_json(const Explanation& e) {
  OrderedJson cuts = OrderedJson::array();
  for (std::size_t c = 0; c < e.cuts.size(); ++c) {
    OrderedJson values = OrderedJson::array();
    for (const int value : e.cuts[c].values) values.push_back(value_name(e, value));
    cuts.push_back({{"before_stage", c + 1},
                    {"values", values},
                    {"forward", traffic_json(e.cuts[c].forward)},
                    {"backward", traffic_json(e.cuts[c].backward)}});
  }
  return cuts;
}

OrderedJson head_json(const ExplainedHead& explained) {
  OrderedJson over = OrderedJson::array();
  explained.class_axes.for_each([&](Axis axis) { over.push_back(name_of(axis)); });
  OrderedJson head{{"parallel", explained.class_axes.empty() ? "replicated" : "sharded"}, {"over", over}};
  if (!explained.split.empty()) head["split"] = explained.split;
  return costs_json(std::move(head), explained.costs);
}

/// One head, or of several a list with their names.
OrderedJson heads_json(const Explanation& e) {
  if (e.heads.size() == 1) return head_json(e.heads.front());
  OrderedJson heads = OrderedJson::array();
  for (const ExplainedHead& explained : e.heads) {
    OrderedJson head{{"name", explained.name}};
    head.update(head_json(explained));
    heads.push_back(std::move(head));
  }
  return heads;
}

OrderedJson variant_json(const Explanation& e) {
  OrderedJson layers = OrderedJson::array();
  for (std::size_t i = 0; i < e.report.layers.size(); ++i) layers.push_back(layer_json(e, i));
  OrderedJson redistributions = OrderedJson::array();
  for (const RedistributionCost& redistribution : e.report.redistributions)
    redistributions.push_back(redistribution_json(e, redistribution));
  OrderedJson choices = OrderedJson::array();
  for (const Explanation::Choice& choice : e.choices)
    choices.push_back({{"name", choice.name},
                       {"fits", e.memory_budget == 0 || choice.totals.bytes() <= e.memory_budget},
                       {"totals", totals_json(choice.totals)}});
  OrderedJson mesh;
  for (const Axis axis : all_axes) mesh[std::string(name_of(axis))] = e.options.mesh.size(axis);
  return {{"name", e.name},
          {"placements", e.is_automatic ? "auto" : "written"},
          {"mesh", mesh},
          {"samples", e.options.samples},
          {"micro_batches", e.options.mesh.size(Axis::copies) * e.options.micro_batches},
          {"memory_budget", e.memory_budget == 0 ? OrderedJson(nullptr) : OrderedJson(e.memory_budget)},
          {"input", placements_json(e.placement.input, e.options.mesh)},
          {"layers", layers},
          {"stages", stages_json(e)},
          {"cuts", cuts_json(e)},
          {"head", heads_json(e)},
          {"redistributions", redistributions},
          {"totals", totals_json(e.totals)},
          {"choices", choices}};
}

}  // namespace

std::string explanations_json(const std::string& study, std::span<const Explanation> explanations) {
  OrderedJson variants = OrderedJson::array();
  for (const Explanation& explanation : explanations) variants.push_back(variant_json(explanation));
  return OrderedJson{{"name", study}, {"variants", variants}}.dump(2) + "\n";
}

}  // namespace heddle

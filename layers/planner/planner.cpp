#include "layers/planner/planner.h"

#include <algorithm>

#include "framework/description/describe.h"
#include "framework/tensors/memory.h"
#include "layers/planner/plan_states.h"

namespace heddle {

namespace {

std::size_t index_in(std::vector<Placements>& known, const Placements& placements) {
  const auto found = std::find(known.begin(), known.end(), placements);
  if (found == known.end()) known.push_back(placements);
  return static_cast<std::size_t>(std::find(known.begin(), known.end(), placements) - known.begin());
}

constexpr std::array<Parallel, 6> all_kinds{Parallel::data,   Parallel::replicate, Parallel::group,
                                            Parallel::column, Parallel::row,       Parallel::parameter};

/// How a layer may be placed along one axis.
std::vector<LayerOption> options_along(Axis axis, const ModelDescription& model,
                                       const ModelDescription::Application& application,
                                       const PlannerOptions& options) {
  const AxisUse use{axis, options.mesh.size(axis)};
  const Axis default_axis = options.mesh.size(Axis::tp) > 1 ? Axis::tp : Axis::dp;
  const bool is_requested =
      !options.automatic && application.request && application.request->over.value_or(default_axis) == axis;
  std::vector<Parallel> kinds{Parallel::data};
  if (is_requested)
    kinds = {application.request->kind};
  else if (options.automatic || application.layer->follows())
    kinds.assign(all_kinds.begin(), all_kinds.end());
  const std::vector<Shape> inputs = model.input_shapes(application, options.samples);
  std::vector<LayerOption> offered;
  std::string why_not;
  for (const Parallel kind : kinds) {
    auto option = application.layer->option(kind, use, inputs);
    if (auto* possible = std::get_if<LayerOption>(&option))
      offered.push_back(std::move(*possible));
    else if (why_not.empty())
      why_not = std::get<Refusal>(option).why;
  }
  if (offered.empty())
    fail<InputError>("{}: cannot be placed as {} over {} ({} ranks): {}", application.name, name_of(kinds[0]),
                     name_of(axis), use.ranks, why_not);
  return offered;
}

/// Whether a layer may be placed both ways, along different axes.
bool go_together(Parallel a, Parallel b) {
  const auto cuts_channels = [](Parallel kind) {
    return kind == Parallel::column || kind == Parallel::row || kind == Parallel::group;
  };
  return !(cuts_channels(a) && cuts_channels(b)) && !(a == Parallel::parameter && b == Parallel::parameter);
}

constexpr std::size_t most_plan_states = 50000;

/// The problem's steps: the model's input, its layers, its output.
class Planner {
 public:
  Planner(const ModelDescription& model, const PlannerOptions& options)
      : model_(model), options_(options), costs_(model, options), values_(model.applications().size() + 2) {
    problem_.counts_bytes = options.memory_budget.has_value();
    for (const Axis axis : layer_axes)
      if (options.mesh.size(axis) > 1) output_[axis] = Placement::shard(0);
  }

  PlacementPlan plan() {
    add_input();
    for (std::size_t i = 0; i < model_.applications().size(); ++i) add_layer(i);
    problem_.steps.push_back(
        {.inputs = {last_value()}, .choices = {{.wanted = {index_in(values_[last_value()].wanted, output_)}}}});
    price_values();
    const GraphPath path = find_path(graph_of(problem_, most_plan_states));
    PlacementPlan plan{.mesh = options_.mesh, .input = values_[0].made[path.choices[0]], .output = output_};
    for (std::size_t i = 0; i < layers_.size(); ++i) plan.layers.push_back(layers_[i][path.choices[i + 1]]);
    return plan;
  }

 private:
  struct Value {
    std::vector<Placements> made{};
    std::vector<Placements> wanted{};
  };

  std::size_t last_value() const { return model_.applications().size(); }
  /// What the path minimises.
  PathCost weigh(double communication, double computing) const {
    if (options_.automatic) return {communication + computing, communication};
    return {communication, computing};
  }

  /// The loader reads the samples in either placement: along an axis, each rank has different samples, or all have the
  /// same.
  void add_input() {
    std::vector<Placements>& made = values_[0].made;
    made.emplace_back();
    for (const Axis axis : layer_axes) {
      if (options_.mesh.size(axis) == 1) continue;
      for (std::size_t i = 0, count = made.size(); i < count; ++i) {
        made.push_back(made[i]);
        made.back()[axis] = Placement::shard(0);
      }
    }
    PlanProblem::Step& step = problem_.steps.emplace_back();
    for (std::size_t i = 0; i < made.size(); ++i)
      step.choices.push_back({.made = i, .cost = weigh(0, costs_.loading_seconds(made[i]))});
  }

  void add_layer(std::size_t index) {
    const ModelDescription::Application& application = model_.applications()[index];
    PlanProblem::Step& step = problem_.steps.emplace_back();
    step.inputs.assign(application.inputs.begin(), application.inputs.end());
    std::vector<PerAxis<LayerOption>>& kept = layers_.emplace_back();
    for (const PerAxis<LayerOption>& options : combinations(application)) {
      const LayerLayout layout{options_.mesh, {}, options, {}};
      PlanProblem::Choice choice;
      for (std::size_t i = 0; i < step.inputs.size(); ++i)
        choice.wanted.push_back(index_in(values_[step.inputs[i]].wanted, layout.input(i)));
      choice.made = index_in(values_[index + 1].made, layout.output());
      const LayerCosts costs = costs_.layer(index, options);
      double communication = 0;
      for (const PlannedCollective& collective : costs.collectives) communication += collective.seconds;
      choice.cost = weigh(communication, costs.seconds);
      choice.bytes = costs.bytes;
      if (is_beaten(choice, step.choices)) continue;
      step.choices.push_back(std::move(choice));
      kept.push_back(options);
    }
  }

  std::vector<PerAxis<LayerOption>> combinations(const ModelDescription::Application& application) const {
    std::vector<PerAxis<LayerOption>> all(1);
    for (const Axis axis : layer_axes) {
      if (options_.mesh.size(axis) == 1) continue;
      const std::vector<LayerOption> offered = options_along(axis, model_, application, options_);
      std::vector<PerAxis<LayerOption>> extended;
      for (const PerAxis<LayerOption>& options : all)
        for (const LayerOption& option : offered) {
          const auto fits = [&](const LayerOption& other) { return go_together(other.kind, option.kind); };
          if (!std::all_of(options.values.begin(), options.values.end(), fits)) continue;
          extended.push_back(options);
          extended.back()[axis] = option;
        }
      all = std::move(extended);
    }
    return all;
  }
  /// By one whose inputs and output have the same placement.
  bool is_beaten(const PlanProblem::Choice& choice, const std::vector<PlanProblem::Choice>& others) const {
    return std::any_of(others.begin(), others.end(), [&](const PlanProblem::Choice& other) {
      return other.wanted == choice.wanted && other.made == choice.made && other.cost <= choice.cost &&
             (!options_.memory_budget || other.bytes <= choice.bytes);
    });
  }

  void price_values() {
    for (std::size_t v = 0; v <= last_value(); ++v) {
      PlanProblem::Step& step = problem_.steps[v];
      const int index = static_cast<int>(v);
      step.wanted = values_[v].wanted.size();
      for (const Placements& made : values_[v].made)
        for (const Placements& wanted : values_[v].wanted)
          step.conversions.push_back(weigh(costs_.conversion_seconds(index, made, wanted), 0));
      for (const Placements& wanted : values_[v].wanted) step.kept.push_back(costs_.kept_bytes(index, wanted));
    }
  }

  GraphPath find_path(const LayeredGraph& graph) const {
    if (!options_.memory_budget) return shortest_path(graph);
    std::optional<GraphPath> path = shortest_path_within(graph, *options_.memory_budget);
    if (!path)
      fail<InputError>("the model: no placement fits into {} per rank, the least that is possible is {}",
                       format_bytes(*options_.memory_budget), format_bytes(path_of_fewest_bytes(graph).bytes));
    return *std::move(path);
  }

  const ModelDescription& model_;
  PlannerOptions options_;
  PlanCosts costs_;
  std::vector<Value> values_;
  std::vector<std::vector<PerAxis<LayerOption>>> layers_;  // one list per application: its choices
  Placements output_{};
  PlanProblem problem_;
};

}  // namespace

PlacementPlan place(const ModelDescription& model, const PlannerOptions& options) {
  return Planner(model, options).plan();
}

}  // namespace heddle

#include "layers/planner/planner.h"

#include <algorithm>

#include "framework/description/describe.h"
#include "framework/tensors/memory.h"
#include "layers/planner/placement_states.h"

namespace heddle {

namespace {

std::size_t index_in(std::vector<Placements>& known, const Placements& placements) {
  const auto found = std::find(known.begin(), known.end(), placements);
  if (found == known.end()) known.push_back(placements);
  return static_cast<std::size_t>(std::find(known.begin(), known.end(), placements) - known.begin());
}

constexpr std::array<Parallel, 7> all_kinds{Parallel::data, Parallel::replicate, Parallel::group,   Parallel::column,
                                            Parallel::row,  Parallel::parameter, Parallel::sequence};

/// The kind that the user requests for a layer along one axis.
std::optional<Parallel> requested_along(Axis axis, const ModelSpec::Application& application,
                                        const PlannerOptions& options) {
  if (options.automatic || !application.request) return {};
  const bool is_over = application.request->over.value_or(options.mesh.default_axis()) == axis;
  return is_over ? application.request->kind : application.request->other;
}

/// How a layer may be placed along one axis.
std::vector<LayerOption> options_along(Axis axis, const ModelSpec& model, const ModelSpec::Application& application,
                                       const PlannerOptions& options) {
  const AxisUse use{axis, options.mesh.size(axis)};
  const std::optional<Parallel> requested = requested_along(axis, application, options);
  std::vector<Parallel> kinds{Parallel::data};
  if (requested)
    kinds = {*requested};
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

[[noreturn]] void refuse_pair(const std::string& layer, const PlacementRequest& request) {
  fail<InputError>(
      "{}: cannot be placed as {} and {}: expected at most one of column, row and group, parameter at most once, and "
      "sequence not with group",
      layer, name_of(request.kind), name_of(*request.other));
}

/// The problem's steps: the model's input, its layers, its output.
class Planner {
 public:
  Planner(const ModelSpec& model, const PlannerOptions& options)
      : model_(model), options_(options), costs_(model, options), values_(model.applications().size() + 2) {
    for (const Axis axis : layer_axes)
      if (options.mesh.size(axis) > 1) output_[axis] = Placement::shard(0);
  }

  ModelPlacement place() {
    add_input();
    for (std::size_t i = 0; i < model_.applications().size(); ++i) add_layer(i);
    problem_.steps.push_back(
        {.inputs = {last_value()}, .choices = {{.wanted = {index_in(values_[last_value()].wanted, output_)}}}});
    price_values();
    const GraphPath path = find_path();
    ModelPlacement placement{.mesh = options_.mesh, .input = values_[0].made[path.choices[0]], .output = output_};
    for (std::size_t i = 0; i < layers_.size(); ++i) placement.layers.push_back(layers_[i][path.choices[i + 1]]);
    return placement;
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
    PlacementProblem::Step& step = problem_.steps.emplace_back();
    for (std::size_t i = 0; i < made.size(); ++i)
      step.choices.push_back({.made = i, .cost = weigh(0, costs_.loading_seconds(made[i]))});
  }

  void add_layer(std::size_t index) {
    const ModelSpec::Application& application = model_.applications()[index];
    PlacementProblem::Step& step = problem_.steps.emplace_back();
    step.inputs.assign(application.inputs.begin(), application.inputs.end());
    std::vector<PerAxis<LayerOption>>& kept = layers_.emplace_back();
    for (const PerAxis<LayerOption>& options : combinations(application)) {
      const LayerLayout layout{options_.mesh, {}, options, {}};
      PlacementProblem::Choice choice;
      for (std::size_t i = 0; i < step.inputs.size(); ++i)
        choice.wanted.push_back(index_in(values_[step.inputs[i]].wanted, layout.input(i)));
      choice.made = index_in(values_[index + 1].made, layout.output());
      const LayerCosts costs = costs_.layer(index, options);
      double communication = 0;
      for (const CollectiveCost& collective : costs.collectives) communication += collective.seconds;
      choice.cost = weigh(communication, costs.seconds);
      choice.bytes = costs.bytes;
      if (is_beaten(choice, step.choices)) continue;
      step.choices.push_back(std::move(choice));
      kept.push_back(options);
    }
  }

  std::vector<PerAxis<LayerOption>> combinations(const ModelSpec::Application& application) const {
    std::vector<PerAxis<LayerOption>> all(1);
    for (const Axis axis : layer_axes) {
      if (options_.mesh.size(axis) == 1) continue;
      const std::vector<LayerOption> offered = options_along(axis, model_, application, options_);
      std::vector<PerAxis<LayerOption>> extended;
      for (const PerAxis<LayerOption>& options : all)
        for (const LayerOption& option : offered) {
          const auto fits = [&](const LayerOption& other) { return may_combine(other.kind, option.kind); };
          if (!std::all_of(options.values.begin(), options.values.end(), fits)) continue;
          extended.push_back(options);
          extended.back()[axis] = option;
        }
      all = std::move(extended);
    }
    if (all.empty()) refuse_pair(application.name, *application.request);
    return all;
  }
  /// By one whose inputs and output have the same placement.
  bool is_beaten(const PlacementProblem::Choice& choice, const std::vector<PlacementProblem::Choice>& others) const {
    return std::any_of(others.begin(), others.end(), [&](const PlacementProblem::Choice& other) {
      return other.wanted == choice.wanted && other.made == choice.made && other.cost <= choice.cost &&
             (!options_.memory_budget || other.bytes <= choice.bytes);
    });
  }

  void price_values() {
    for (std::size_t v = 0; v <= last_value(); ++v) {
      PlacementProblem::Step& step = problem_.steps[v];
      const int index = static_cast<int>(v);
      step.wanted = values_[v].wanted.size();
      for (const Placements& made : values_[v].made)
        for (const Placements& wanted : values_[v].wanted)
          step.conversions.push_back(weigh(costs_.conversion_seconds(index, made, wanted), 0));
      for (const Placements& wanted : values_[v].wanted) step.kept.push_back(costs_.kept_bytes(index, wanted));
    }
  }

  /// The graph without the states that no path of this cost passes.
  std::optional<LayeredGraph> graph_within(PathCost max_cost) const {
    constexpr double rounding = 1e-9;  // sums of costs in another order may differ where steps take hours
    max_cost = {max_cost.first * (1 + rounding), PathCost::infinite().second};
    return graph_of(problem_, options_.effort.max_states, max_cost);
  }

  GraphPath find_path() {
    // Few states give a path whose cost bounds which ones the graph of more states needs.
    constexpr std::size_t few_states = quick_planning.max_states;
    GraphPath fastest = shortest_path(graph_of(problem_, few_states).value());
    if (options_.effort.max_states > few_states)
      if (const std::optional<LayeredGraph> graph = graph_within(fastest.cost))
        fastest = std::min(shortest_path(*graph), fastest, is_cheaper);
    if (!options_.memory_budget || problem_.bytes_of(fastest) <= *options_.memory_budget) return fastest;
    return find_path_within(*options_.memory_budget);
  }

  GraphPath find_path_within(std::int64_t budget) {
    problem_.counts_bytes = true;
    const std::optional<GraphPath> first =
        shortest_path_within(graph_of(problem_, quick_planning.max_states).value(), budget, quick_planning.max_labels);
    const std::optional<LayeredGraph> graph = graph_within(first ? first->cost : PathCost::infinite());
    if (!graph) return first.value();
    const std::optional<GraphPath> path = shortest_path_within(*graph, budget, options_.effort.max_labels);
    if (first) return path ? std::min(*path, *first, is_cheaper) : *first;
    if (!path)
      fail<InputError>("the model: no placement fits into {}, the least that is possible is {}", budget_words(),
                       format_bytes(path_of_fewest_bytes(*graph).bytes));
    return *path;
  }
  static bool is_cheaper(const GraphPath& a, const GraphPath& b) { return a.cost < b.cost; }

  std::string budget_words() const {
    const int stages = options_.mesh.size(Axis::pp);
    return fmt::format("{} {}", format_bytes(*options_.memory_budget),
                       stages == 1 ? "per rank" : fmt::format("for the stages of {} ranks together", stages));
  }

  const ModelSpec& model_;
  PlannerOptions options_;
  PlacementCosts costs_;
  std::vector<Value> values_;
  std::vector<std::vector<PerAxis<LayerOption>>> layers_;  // one list per application: its choices
  Placements output_{};
  PlacementProblem problem_;
};

}  // namespace

bool may_combine(Parallel a, Parallel b) {
  const auto cuts_channels = [](Parallel kind) {
    return kind == Parallel::column || kind == Parallel::row || kind == Parallel::group;
  };
  const auto are = [&](Parallel one, Parallel other) { return (a == one && b == other) || (a == other && b == one); };
  return !(cuts_channels(a) && cuts_channels(b)) && !are(Parallel::parameter, Parallel::parameter) &&
         !are(Parallel::group, Parallel::sequence);
}

ModelPlacement place(const ModelSpec& model, const PlannerOptions& options) {
  return Planner(model, options).place();
}

}  // namespace heddle

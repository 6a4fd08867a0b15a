#include "layers/stages/stage_balance.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

#include <fmt/ranges.h>

#include "framework/error.h"
#include "layers/planner/placement_report.h"

namespace heddle {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

void check_stages(int stages, std::size_t layers) {
  if (static_cast<std::size_t>(stages) > layers)
    fail<InputError>("model: expected at most {} stages, one per layer, got {}", layers, stages);
}

/// Whether it is a convolution or a linear layer.
bool is_weighted(const LayerSpec& layer) {
  return !layer.follows() && layer.parameter_elements() > 0;
}

/// One for each application: whether it is on the path from the input to the output that has the most weighted layers.
/// If several have as many, it is the one through the first input.
std::vector<bool> main_path(const ModelSpec& model) {
  const auto& applications = model.applications();
  std::vector<int> before(applications.size() + 1);  // the weighted layers on the path to each value
  const auto input_of = [&](const ModelSpec::Application& application) {
    const auto has_fewer = [&](int a, int b) {
      return before[static_cast<std::size_t>(a)] < before[static_cast<std::size_t>(b)];
    };
    return *std::max_element(application.inputs.begin(), application.inputs.end(), has_fewer);
  };
  for (std::size_t i = 0; i < applications.size(); ++i)
    before[i + 1] =
        before[static_cast<std::size_t>(input_of(applications[i]))] + (is_weighted(*applications[i].layer) ? 1 : 0);
  std::vector<bool> is_main(applications.size());
  for (int value = model.last_value(); value > 0;) {
    const auto index = static_cast<std::size_t>(value) - 1;
    is_main[index] = true;
    value = input_of(applications[index]);
  }
  return is_main;
}

/// The number of values that cross each position: those that are made before it and read after it.
std::vector<int> crossing_values(const ModelSpec& model) {
  const auto& applications = model.applications();
  std::vector<std::size_t> last_reader(applications.size() + 1);
  for (std::size_t i = 0; i < applications.size(); ++i)
    for (const int value : applications[i].inputs) last_reader[static_cast<std::size_t>(value)] = i;
  std::vector<int> change(applications.size() + 2);
  for (std::size_t value = 0; value < applications.size(); ++value) {  // the last value is the model's result
    ++change[value];
    --change[std::max(value, last_reader[value] + 1)];
  }
  std::partial_sum(change.begin(), change.end(), change.begin());
  return change;
}

/// The dynamic program over prefixes of the layers.
class EvenCut {
 public:
  EvenCut(const StageLoads& loads, int stages)
      : stages_(static_cast<std::size_t>(stages)), each_(sums(loads.each)), held_(sums(loads.held)) {
    held_.resize(each_.size());
    in_flight_ = loads.in_flight;
    in_flight_.resize(stages_, 1);
    weights_ = loads.weights;
    weights_.resize(stages_, 1);
  }

  StageCut find() {
    bound_ = min_bound();
    return min_squares();
  }

 private:
  static std::vector<double> sums(std::span<const double> values) {
    std::vector<double> sums{0};
    for (const double value : values) sums.push_back(sums.back() + value);
    return sums;
  }
  std::size_t layers() const { return each_.size() - 1; }
  double load(std::size_t stage, std::size_t begin, std::size_t end) const {
    return weights_[stage] * (each_[end] - each_[begin] + in_flight_[stage] * (held_[end] - held_[begin]));
  }

  /// Calls f(stage, end, row before, least) for all ends of all stages. Each stage has a layer and leaves one for each
  /// later stage. f sets `least`, the least value for the first stages up to the end.
  template <class F>
  double fill(F&& f) const {
    std::vector<double> before(layers() + 1, infinity);
    before[0] = 0;
    for (std::size_t stage = 0; stage < stages_; ++stage) {
      std::vector<double> row(layers() + 1, infinity);
      for (std::size_t end = stage + 1; end + (stages_ - stage - 1) <= layers(); ++end)
        row[end] = f(stage, end, before);
      before = std::move(row);
    }
    return before.back();
  }

  /// A stage's load only grows as its begin moves back, so no begin before the one where it exceeds the best can win.
  double min_bound() const {
    return fill([&](std::size_t stage, std::size_t end, const std::vector<double>& before) {
      double best = infinity;
      for (std::size_t begin = end; begin-- > stage;) {
        const double own = load(stage, begin, end);
        if (own >= best) break;
        best = std::min(best, std::max(before[begin], own));
      }
      return best;
    });
  }
  StageCut min_squares() const {
    std::vector<std::vector<std::uint32_t>> begins(stages_, std::vector<std::uint32_t>(layers() + 1));
    (void)fill([&](std::size_t stage, std::size_t end, const std::vector<double>& before) {
      double best = infinity;
      for (std::size_t begin = end; begin-- > stage;) {
        const double own = load(stage, begin, end);
        if (own > bound_ || own * own >= best) break;
        if (before[begin] + own * own >= best) continue;
        best = before[begin] + own * own;
        begins[stage][end] = static_cast<std::uint32_t>(begin);
      }
      return best;
    });
    StageCut cut{.begins = std::vector<int>(stages_), .end = static_cast<int>(layers())};
    std::size_t end = layers();
    for (std::size_t stage = stages_; stage-- > 0;) {
      end = begins[stage][end];
      cut.begins[stage] = static_cast<int>(end);
    }
    return cut;
  }

  std::size_t stages_;
  // Prefix sums over the layers.
  std::vector<double> each_;
  std::vector<double> held_;
  std::vector<double> in_flight_;
  std::vector<double> weights_;
  double bound_ = infinity;
};

StageLoads time_loads(const ModelSpec& model, const ModelPlacement& placement, const PlannerOptions& options) {
  const PlacementReport planned = placement_report(model, placement, options);
  StageLoads loads;
  for (const LayerCosts& layer : planned.layers) {
    double seconds = layer.seconds;
    for (const CollectiveCost& collective : layer.collectives)
      if (collective.payload != Payload::gradients) seconds += collective.seconds;
    loads.each.push_back(seconds);
  }
  for (const RedistributionCost& redistribution : planned.redistributions)
    for (const RedistributionStepCost& step : redistribution.steps)
      loads.each[std::min(redistribution.reader, loads.each.size() - 1)] +=
          (step.forward ? step.forward->seconds : 0) + (step.backward ? step.backward->seconds : 0);
  return loads;
}

StageLoads memory_loads(const ModelSpec& model, const ModelPlacement& placement, const PlannerOptions& options) {
  const PlacementCosts costs(model, options);
  const ValueForms forms(model, placement);
  StageLoads loads;
  std::set<std::size_t> seen;
  for (std::size_t i = 0; i < model.applications().size(); ++i) {
    loads.each.push_back(static_cast<double>(costs.layer(i, placement.layers[i]).bytes));
    loads.held.push_back(0);
    for (const std::size_t form : forms.inputs(static_cast<int>(i)))
      if (seen.insert(form).second)
        loads.held.back() += static_cast<double>(costs.kept_bytes(forms.all()[form].value, forms.all()[form].where));
  }
  return loads;
}

}  // namespace

std::vector<int> weighted_layers(const ModelSpec& model) {
  const std::vector<bool> is_main = main_path(model);
  std::vector<int> layers;
  for (std::size_t i = 0; i < is_main.size(); ++i)
    if (is_main[i] && is_weighted(*model.applications()[i].layer)) layers.push_back(static_cast<int>(i));
  return layers;
}

StageCut cut_by_counts(const ModelSpec& model, std::span<const std::int64_t> counts, int stages) {
  const std::vector<int> layers = weighted_layers(model);
  if (counts.size() != static_cast<std::size_t>(stages))
    fail<InputError>("model.stages.balance: expected {} number{}, one for each stage, got [{}]", stages,
                     stages == 1 ? "" : "s", fmt::join(counts, ","));
  if (std::any_of(counts.begin(), counts.end(), [](std::int64_t count) { return count < 1; }))
    fail<InputError>("model.stages.balance: expected at least one weighted layer in each stage, got [{}]",
                     fmt::join(counts, ","));
  const std::int64_t sum = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  if (sum != static_cast<std::int64_t>(layers.size()))
    fail<InputError>("model.stages.balance: expected {} weighted layers in all, [{}] has {}", layers.size(),
                     fmt::join(counts, ","), sum);
  const std::vector<int> crossing = crossing_values(model);
  StageCut cut{.begins = {0}, .end = model.last_value()};
  std::size_t first = 0;
  for (const std::int64_t count : counts.first(counts.size() - 1)) {
    first += static_cast<std::size_t>(count);
    // The last of the narrowest positions after the weighted layer before.
    int narrowest = layers[first];
    for (int position = narrowest - 1; position > layers[first - 1]; --position)
      if (crossing[static_cast<std::size_t>(position)] < crossing[static_cast<std::size_t>(narrowest)])
        narrowest = position;
    cut.begins.push_back(narrowest);
  }
  return cut;
}

StageCut cut_as_named(const ModelSpec& model, int stages) {
  StageCut cut{.begins = {0}, .end = model.last_value()};
  for (int i = 0; i < model.last_value(); ++i) {
    const ModelSpec::Application& application = model.applications()[static_cast<std::size_t>(i)];
    const int last = cut.stages() - 1;
    const int stage = application.stage.value_or(last);
    if (i == 0 && stage != 0)
      fail<InputError>("model: {}: expected stage 0 for the first layer, got {}", application.name, stage);
    if (stage != last && stage != last + 1)
      fail<InputError>("model: {}: expected stage {} or {}, because the layer before it is in stage {}, got {}",
                       application.name, last, last + 1, last, stage);
    if (stage > last) cut.begins.push_back(i);
  }
  if (cut.stages() != stages)
    fail<InputError>("model: expected {} stage{} in the keys `stage` of the layers, got {}", stages,
                     stages == 1 ? "" : "s", cut.stages());
  return cut;
}

double StageLoads::of_stage(int stage, const IndexRange& applications) const {
  const auto at = static_cast<std::size_t>(stage);
  double load = 0;
  for (auto i = static_cast<std::size_t>(applications.begin); i < static_cast<std::size_t>(applications.end()); ++i) {
    load += each[i];
    if (!held.empty()) load += held[i] * (in_flight.empty() ? 1 : in_flight[at]);
  }
  return load * (weights.empty() ? 1 : weights[at]);
}

double StageLoads::sum() const {
  const double most = in_flight.empty() ? 1 : *std::max_element(in_flight.begin(), in_flight.end());
  return std::accumulate(each.begin(), each.end(), 0.0) + most * std::accumulate(held.begin(), held.end(), 0.0);
}

StageCut balanced_cut(const StageLoads& loads, int stages) {
  check_stages(stages, loads.each.size());
  return EvenCut(loads, stages).find();
}

StageLoads loads_of(const ModelSpec& model, const ModelPlacement& placement, const PlannerOptions& options,
                    BalanceBy by) {
  if (by == BalanceBy::time) return time_loads(model, placement, options);
  if (by == BalanceBy::memory) return memory_loads(model, placement, options);
  const PlacementCosts costs(model, options);
  StageLoads loads;
  for (std::size_t i = 0; i < model.applications().size(); ++i)
    loads.each.push_back(static_cast<double>(costs.layer(i, placement.layers[i]).parameters));
  return loads;
}

}  // namespace heddle

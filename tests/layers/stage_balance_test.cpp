// Cuts of models by counts of weighted layers, by name, and by the most even load.
#include "layers/stages/stage_balance.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include <doctest/doctest.h>

#include "experiments/training/planning/model_layout.h"
#include "framework/scalars/random.h"
#include "layers/modules/activation.h"
#include "layers/planner/placement_report.h"
#include "layers/planner/planner.h"
#include "models/models.h"
#include "parallel/pipeline/passes/passes.h"
#include "parallel/pipeline/schedules.h"
#include "tests/support/message.h"
#include "tests/support/ranks.h"

namespace heddle::test::stage_balance_test {

namespace {

const ImageShape faces{3, 112, 112};

ModelSpec resnet18() {
  return make_model({.type = ModelType::resnet18}, faces);
}

/// The names of the layers with which the stages begin.
std::vector<std::string> first_layers(const ModelSpec& model, const StageCut& cut) {
  std::vector<std::string> names;
  for (const int begin : cut.begins) names.push_back(model.applications()[static_cast<std::size_t>(begin)].name);
  return names;
}

std::string counts_error(const ModelSpec& model, const std::vector<std::int64_t>& counts, int stages) {
  return message_of([&] { (void)cut_by_counts(model, counts, stages); });
}

/// Most loaded stage, sum of squares.
std::pair<double, double> weight_of(const StageCut& cut, const StageLoads& loads) {
  std::pair<double, double> weight;
  for (int stage = 0; stage < cut.stages(); ++stage) {
    const double load = loads.of_stage(stage, cut.stage(stage));
    weight.first = std::max(weight.first, load);
    weight.second += load * load;
  }
  return weight;
}

/// The least weight of all cuts into this number of stages.
std::pair<double, double> min_weight(const StageLoads& loads, int stages) {
  const int layers = static_cast<int>(loads.each.size());
  std::pair<double, double> least{1e300, 1e300};
  StageCut cut{.begins = {0}, .end = layers};
  const std::function<void()> extend = [&] {
    if (cut.stages() == stages) {
      least = std::min(least, weight_of(cut, loads));
      return;
    }
    for (int begin = cut.begins.back() + 1; begin < layers; ++begin) {
      cut.begins.push_back(begin);
      extend();
      cut.begins.pop_back();
    }
  };
  extend();
  return least;
}

}  // namespace

TEST_CASE("balance counts weighted layers of the main path: ResNet-18 has 18, cut between its layers") {
  const ModelSpec model = resnet18();
  CHECK(weighted_layers(model).size() == 18);
  const StageCut cut = cut_by_counts(model, std::vector<std::int64_t>{5, 4, 4, 5}, 4);
  CHECK(first_layers(model, cut) ==
        std::vector<std::string>{"conv1", "layer2.0.conv1", "layer3.0.conv1", "layer4.0.conv1"});
  CHECK(cut.end == model.last_value());
  CHECK(cut.stage(3).end() == model.last_value());
  CHECK(cut.stage_of(0) == 0);
  CHECK(cut.stage_of(static_cast<int>(cut.stage(2).begin) - 1) == 1);
  CHECK(cut.stage_of(static_cast<int>(cut.stage(2).begin)) == 2);
  CHECK(weighted_layers(make_model({.type = ModelType::resnet50}, faces)).size() == 50);
  CHECK(weighted_layers(make_model({.type = ModelType::vgg16}, {3, 64, 64})).size() == 16);
}

TEST_CASE("balance counts the four linear layers of a transformer's block, and cuts before its norm") {
  const ModelSpec model = make_model({.type = ModelType::vit_t}, faces);
  CHECK(weighted_layers(model).size() == 1 + 12 * 4 + 2);
  const StageCut cut = cut_by_counts(model, std::vector<std::int64_t>{13, 12, 14, 12}, 4);
  CHECK(first_layers(model, cut) ==
        std::vector<std::string>{"patch_embed.proj", "blocks.3.norm1", "blocks.6.norm1", "blocks.9.norm2"});
}

TEST_CASE("a cut within a block leaves the shortcut's projection with its block") {
  const ModelSpec model = resnet18();
  // The cut lies between the two convolutions of layer2.0.
  const StageCut cut = cut_by_counts(model, std::vector<std::int64_t>{6, 12}, 2);
  CHECK(first_layers(model, cut)[1] == "layer2.0.conv2");
  // A projection that stands before its block's first convolution.
  ModelSpec early({8, 8, 4});
  const auto convolution = [] { return Convolution::spec({.in = 4, .out = 4}); };
  const int a = early.then("a", convolution());
  const int projected = early.apply("projection", convolution(), {a});
  const int b = early.apply("b", convolution(), {a});
  early.apply("sum", Add::spec(), {b, projected});
  CHECK(first_layers(early, cut_by_counts(early, std::vector<std::int64_t>{1, 1}, 2))[1] == "projection");
}

TEST_CASE("a balance that does not fit is refused") {
  const ModelSpec model = resnet18();
  CHECK(counts_error(model, {5, 4, 4, 4}, 4) ==
        "model.stages.balance: expected 18 weighted layers in all, [5,4,4,4] has 17");
  CHECK(counts_error(model, {5, 4, 9}, 4) ==
        "model.stages.balance: expected 4 numbers, one for each stage, got [5,4,9]");
  CHECK(counts_error(model, {5, 13}, 1) == "model.stages.balance: expected 1 number, one for each stage, got [5,13]");
  CHECK(counts_error(model, {5, 0, 8, 5}, 4) ==
        "model.stages.balance: expected at least one weighted layer in each stage, got [5,0,8,5]");
}

TEST_CASE("stages that layers name are taken as they stand, a layer without one lies with the one before") {
  const auto cut_of = [](const std::vector<std::optional<int>>& stages, int expected) {
    ModelSpec model({4});
    for (std::size_t i = 0; i < stages.size(); ++i)
      model.name_stage(model.then(fmt::format("layer{}", i), Linear::spec({.in = 4, .out = 4})), stages[i]);
    return cut_as_named(model, expected);
  };
  const auto error_of = [&](const std::vector<std::optional<int>>& stages, int expected) {
    return message_of([&] { (void)cut_of(stages, expected); });
  };
  CHECK(cut_of({0, {}, 1, 1, 2, {}}, 3).begins == std::vector<int>{0, 2, 4});
  CHECK(cut_of({{}, 1}, 2).begins == std::vector<int>{0, 1});
  CHECK(error_of({0, 1, 0}, 2) ==
        "model: layer2: expected stage 1 or 2, because the layer before it is in stage 1, got 0");
  CHECK(error_of({0, 2}, 2) ==
        "model: layer1: expected stage 0 or 1, because the layer before it is in stage 0, got 2");
  CHECK(error_of({1, 2}, 2) == "model: layer0: expected stage 0 for the first layer, got 1");
  CHECK(error_of({0, 1, {}}, 4) == "model: expected 4 stages in the keys `stage` of the layers, got 2");
}

TEST_CASE("the most even cut is the best of all contiguous cuts, whatever the stages hold and however slow they are") {
  RandomStream draws({1}, Purpose::test, 0, 0);
  for (int i = 0; i < 300; ++i) {
    const std::size_t layers = 1 + draws.below(9);
    const int stages = static_cast<int>(1 + draws.below(layers));
    StageLoads loads;
    for (std::size_t l = 0; l < layers; ++l) {
      loads.each.push_back(static_cast<double>(draws.below(6)));
      loads.held.push_back(static_cast<double>(draws.below(3)));
    }
    for (int s = 0; s < stages; ++s) loads.in_flight.push_back(static_cast<double>(1 + draws.below(4)));
    for (int s = 0; s < stages && i % 2 == 0; ++s) loads.weights.push_back(static_cast<double>(1 + draws.below(3)));
    const StageCut cut = balanced_cut(loads, stages);
    REQUIRE(cut.stages() == stages);
    for (int s = 0; s < stages; ++s) CHECK(cut.stage(s).size > 0);
    CHECK(weight_of(cut, loads) == min_weight(loads, stages));
  }
}

TEST_CASE("the most even of equal cuts is taken, and layers without load stay with the layer before them") {
  CHECK(balanced_cut({.each = {10, 1, 1, 1, 1, 1, 1, 1, 1}}, 3).begins == std::vector<int>{0, 1, 5});
  CHECK(balanced_cut({.each = {3, 0, 0, 3, 0, 3, 0, 0}}, 3).begins == std::vector<int>{0, 3, 5});
  CHECK(message_of([] {
          (void)balanced_cut({.each = {1, 1, 1}}, 4);
        }) == "model: expected at most 3 stages, one per layer, got 4");
}

TEST_CASE("two thousand layers are divided into a thousand stages, loaded or not") {
  StageLoads loads;
  for (int i = 0; i < 2000; ++i) loads.each.push_back(i % 3 == 0 ? 2 : 1);
  // With at most 2 per stage, every three layers would need two stages.
  CHECK(weight_of(balanced_cut(loads, 1024), loads).first == 3);
  std::fill(loads.each.begin(), loads.each.end(), 0);
  CHECK(balanced_cut(loads, 1024).stages() == 1024);
}

TEST_CASE("loads of a plan: parameters and bytes sum up to the model's, times are those of the report") {
  const ModelSpec model = resnet18();
  const PlannerOptions options{.samples = 8, .micro_batches = 2};
  const ModelPlacement plan = place(model, options);
  const PlacementReport planned = placement_report(model, plan, options);
  const auto sum = [](const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); };
  double parameters = 0;
  double seconds = 0;
  for (const LayerCosts& layer : planned.layers) {
    parameters += static_cast<double>(layer.parameters);
    seconds += layer.seconds;
  }
  CHECK(sum(loads_of(model, plan, options, BalanceBy::parameters).each) == parameters);
  CHECK(sum(loads_of(model, plan, options, BalanceBy::time).each) == seconds);
  const StageLoads memory = loads_of(model, plan, options, BalanceBy::memory);
  CHECK(sum(memory.each) == static_cast<double>(planned.totals.parameter_bytes));
  const std::int64_t result = model.shape(model.last_value(), 8).numel() * 4;  // the report keeps it, too
  CHECK(sum(memory.held) == static_cast<double>(planned.totals.activation_bytes - result));
}

TEST_CASE("an experiment's cut is the balance it gives, what its layers name, or what it asks to be even") {
  Experiment experiment;
  experiment.data.synthetic_identities.image = {3, 112, 112};
  experiment.head.classes = 10;
  experiment.train.micro_batches = 8;
  const ModelSpec model = resnet18();
  const ModelPlacement plan = place(model, {});
  const Schedule schedule = make_schedule("gpipe", {.ranks = 4, .micro_batches = 8});
  const auto cut = [&] { return cut_of(model, experiment, plan, schedule); };
  const auto even = [&](BalanceBy by, std::vector<double> in_flight) {
    StageLoads loads = loads_of(model, plan, planner_options(experiment, model, Mesh()), by);
    loads.in_flight = std::move(in_flight);
    return balanced_cut(loads, 4);
  };
  CHECK(cut() == even(BalanceBy::time, {}));
  experiment.model.stages.by = BalanceBy::time;
  CHECK(cut() == even(BalanceBy::time, {}));
  experiment.model.stages.by = BalanceBy::parameters;
  CHECK(cut() == even(BalanceBy::parameters, {}));
  experiment.model.stages.by = BalanceBy::memory;
  CHECK(cut() == even(BalanceBy::memory, {8, 8, 8, 8}));
  const Schedule streaming = make_schedule("1f1b", {.ranks = 4, .micro_batches = 8});
  CHECK(cut_of(model, experiment, plan, streaming) == even(BalanceBy::memory, {4, 3, 2, 1}));
  CHECK(cut_of(model, experiment, plan, with_recompute(schedule, Recompute::always)) ==
        even(BalanceBy::memory, {1, 1, 1, 1}));
  experiment.model.stages = {.balance = {5, 4, 4, 5}};
  CHECK(first_layers(model, cut())[3] == "layer4.0.conv1");
  experiment.model.stages.by = BalanceBy::time;
  CHECK(message_of([&] { (void)cut(); }) == "model.stages: expected either balance or by, got both");
  experiment.model.stages = {.by = BalanceBy::memory};
  ModelSpec named = model;
  named.name_stage(1, 0);
  CHECK(message_of([&] { (void)cut_of(named, experiment, plan, schedule); }) ==
        "model.stages: layers name their stages: expected neither balance nor by");
}

TEST_CASE("times that were measured, and a head on the last stage, move the cut") {
  Experiment experiment;
  experiment.head.classes = 10;
  const ModelSpec model = resnet18();
  const ModelPlacement plan = place(model, {});
  const Schedule schedule = make_schedule("gpipe", {.ranks = 2, .micro_batches = 1});
  std::vector<double> seconds(model.applications().size());
  seconds[0] = seconds[1] = 1;
  CHECK(cut_of(model, experiment, plan, schedule, seconds).begins == std::vector<int>{0, 1});
  experiment.head.classes = 100'000'000;
  experiment.head.over = {Axis::dp, Axis::tp};
  CHECK(cut_of(model, experiment, plan, schedule).begins.back() == model.last_value() - 1);
}

}  // namespace heddle::test::stage_balance_test

// The placements of single layers, and their costs.
#include <array>
#include <string>

#include <doctest/doctest.h>

#include "layers/modules/activation.h"
#include "layers/modules/convolution.h"
#include "layers/modules/linear.h"
#include "layers/modules/normalization.h"
#include "layers/planner/planner.h"

namespace heddle::test {

namespace {

ModelSpec grouped_row() {
  ModelSpec model({8, 8, 16});
  model.then("head", Convolution::spec({.in = 16, .out = 32}));
  for (int i = 0; i < 4; ++i) {
    const std::string name = fmt::format("group{}", i);
    model.then(name, Convolution::spec({.in = 32, .out = 32, .groups = 8}));
    model.place(name, {Parallel::group});
    model.then(name + ".bn", BatchNorm::spec({.channels = 32, .synchronized = true}));
    model.then(name + ".relu", Activation::spec(ActivationKind::relu));
  }
  model.then("tail", Convolution::spec({.in = 32, .out = 16}));
  return model;
}

}  // namespace

TEST_CASE("a row of sharded group convolutions with norms and activations redistributes at its head and tail only") {
  const ModelSpec model = grouped_row();
  const PlannerOptions options{.mesh = Mesh(1, 1, 4), .samples = 16};
  const ModelPlacement plan = place(model, options);
  PlacementCosts costs(model, options);
  std::string conversions;
  for (std::size_t i = 0; i < model.applications().size(); ++i)
    for (std::size_t input = 0; input < model.applications()[i].inputs.size(); ++input) {
      const int value = model.applications()[i].inputs[input];
      for (const RedistributionStepCost& step :
           costs.redistribution(value, plan.made(value), plan.layout(model, i, {}).input(input)))
        conversions += fmt::format("{} takes {}\n", model.applications()[i].name, to_string(step.step));
    }
  CHECK(conversions == "group0 takes tp: S(0) -> S(3)\ntail takes tp: S(3) -> S(0)\n");
}

TEST_CASE("a layer that cannot be placed as requested is named, with the reason") {
  ModelSpec model({4, 4, 30});
  model.then("layer1.0.conv1", Convolution::spec({.in = 30, .out = 60, .groups = 30}));
  model.place("layer1.0.conv1", {Parallel::group});
  CHECK_THROWS_WITH_AS(
      (void)place(model, {.mesh = Mesh(1, 1, 4)}),
      "layer1.0.conv1: cannot be placed as group over tp (4 ranks): its 30 groups do not divide by the ranks",
      InputError);
  model.place("layer1.0.conv1", {Parallel::row, Axis::dp});
  CHECK_THROWS_WITH_AS(
      (void)place(model, {.mesh = Mesh(2, 1, 4)}),
      "layer1.0.conv1: cannot be placed as row over dp (2 ranks): it has 30 groups: only group cuts it by channels",
      InputError);
  // Along an axis of one rank there is nothing to place.
  CHECK_NOTHROW((void)place(model, {.mesh = Mesh(1, 1, 4)}));
}

TEST_CASE("a parameter-parallel layer gathers its weight twice per micro-batch and scatters its gradient once") {
  ModelSpec model({64});
  model.then("fc", Linear::spec({.in = 64, .out = 32, .bias = false}));
  model.place("fc", {Parallel::parameter});
  const PlannerOptions options{.mesh = Mesh(4),
                               .samples = 8,
                               .micro_batches = 3,
                               .links = {.within_node = {.latency = 0.25, .bandwidth = 1024}},
                               .profile = {.flops_per_second = 1024, .bytes_per_second = 1e30},
                               .optimizer_states = 2};
  const ModelPlacement plan = place(model, options);
  const LayerCosts costs = PlacementCosts(model, options).layer(0, plan.layers[0]);
  CHECK(costs.parameters == 512);
  CHECK(costs.bytes == 4 * 512 * 4);
  // 2 n k^2 operations forward and once more for the weight's gradient: none flows to the images.
  CHECK(costs.flops == 2 * 3 * 2.0 * 2 * 64 * 32);
  CHECK(costs.seconds == costs.flops / 1024);
  REQUIRE(costs.collectives.size() == 3);
  const std::array<Operation, 3> operations{Operation::all_gather, Operation::all_gather, Operation::reduce_scatter};
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(costs.collectives[i].operation == operations[i]);
    CHECK(costs.collectives[i].payload == (i < 2 ? Payload::weights : Payload::gradients));
    CHECK(costs.collectives[i].bytes == 3 * 3 * 512 * 4);
    CHECK(costs.collectives[i].seconds == 3 * 3 * (0.25 + 512 * 4 / 1024.0));
  }
}

TEST_CASE("with automatic placements the heavier of features and weights stays where it is") {
  const auto kind_of = [](std::int64_t samples, std::int64_t width) {
    ModelSpec model({width});
    model.then("first", Linear::spec({.in = width, .out = width}));
    model.then("fc", Linear::spec({.in = width, .out = width}));
    return place(model, {.mesh = Mesh(1, 1, 4), .samples = samples, .automatic = true}).layers[1][Axis::tp].kind;
  };
  CHECK(kind_of(16384, 64) == Parallel::data);
  const Parallel wide = kind_of(64, 4096);
  CHECK((wide == Parallel::column || wide == Parallel::row));
}

}  // namespace heddle::test

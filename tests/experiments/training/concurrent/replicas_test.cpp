// The comparison of replicas, with bits that a test flips as faulty memory would.
#include "experiments/training/ranks/replicas.h"

#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "experiments/training/planning/run_plan.h"
#include "experiments/training/run.h"
#include "framework/error.h"
#include "parallel/world.h"
#include "tests/support/message.h"
#include "tests/support/mlp_experiment.h"

namespace heddle::test {

namespace {

constexpr std::int64_t replica_steps = 3;

/// Trains one step, flips the lowest bit of the first element of a tensor on a rank, and compares.
void flip_and_compare(const Experiment& experiment, int faulty, const std::string& name) {
  const auto dataset = make_dataset(experiment.data, {1});
  const auto model = std::make_shared<ModelSpec>(make_model(experiment.model, dataset->image()));
  const auto plan = plan_run(experiment, model, mesh_of(experiment), {});
  WorldOptions options;
  options.mesh = mesh_of(experiment);
  run_ranks(options, [&](Rank& rank) {
    Tracer tracer(rank.clock, rank.device);
    Trainer trainer(experiment, *dataset, rank, tracer, plan);
    (void)trainer.compute_gradients(0);
    (void)trainer.apply_gradients(0);
    check_replicas(trainer, 0);
    for (StateTensor& state : trainer.state()) {
      if (rank.index != faulty || state.name != name) continue;
      std::vector<float> values = state.value.to_host<float>();
      reinterpret_cast<std::uint32_t&>(values[0]) ^= 1U;
      state.value.load_bytes(std::as_bytes(std::span(values)));
    }
    check_replicas(trainer, 7);
  });
}

}  // namespace

TEST_CASE("replicas of every layout are equal after each step") {
  for (const MeshConfig& mesh :
       {MeshConfig{}, MeshConfig{.dp = 3}, MeshConfig{.dp = 2, .pp = 2}, MeshConfig{.dp = 2, .tp = 2}}) {
    CAPTURE(mesh.dp);
    Experiment experiment = mlp_experiment(mesh, replica_steps);
    experiment.train.check_replicas = 1;
    CHECK(run_variant(experiment, "small").status == VariantResult::Status::ok);
    experiment.train.shard = ShardedState::optimizer;
    CHECK(run_variant(experiment, "small").status == VariantResult::Status::ok);
  }
}

TEST_CASE("a flipped bit is found, with the tensor and the ranks") {
  flip_and_compare(mlp_experiment({.dp = 3}, replica_steps), -1, "layers.0.weight");
  CHECK(message_of<RankFailed>([] {
          flip_and_compare(mlp_experiment({.dp = 3}, replica_steps), 1, "layers.0.weight");
        }) == "step 7: layers.0.weight on rank 1 differs from its replicas: the memory or the device there is faulty");
  CHECK(
      message_of<RankFailed>(
          [] { flip_and_compare(mlp_experiment({.dp = 2}, replica_steps), 0, "layers.0.weight"); }) ==
      "step 7: layers.0.weight differs between its replicas on ranks 0, 1: the memory or the device of one of them is "
      "faulty");
  CHECK(message_of<RankFailed>(
            [] { flip_and_compare(mlp_experiment({.dp = 2, .pp = 2}, replica_steps), 3, "fc.weight"); }) ==
        "step 7: fc.weight differs between its replicas on ranks 1, 3: the memory or the device of one of them is "
        "faulty");
}

}  // namespace heddle::test

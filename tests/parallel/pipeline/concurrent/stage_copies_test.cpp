// Schedules with two copies of each stage: what they train, and what else has to know that there are copies.
#include <doctest/doctest.h>

#include "experiments/training/experiment_checks.h"
#include "experiments/training/ranks/replicas.h"
#include "framework/files/atomic_file.h"
#include "parallel/pipeline/schedule_csv.h"
#include "parallel/pipeline/schedules.h"
#include "tests/support/compare/close_to.h"
#include "tests/support/devices.h"
#include "tests/support/layouts.h"
#include "tests/support/message.h"
#include "tests/support/random_model.h"
#include "tests/support/scratch.h"

namespace heddle::test::stage_copies_test {

namespace {

Layout layout_of(const char* schedule, int ranks, int micro_batches) {
  Layout layout{Mesh(1, ranks, 1), micro_batches};
  layout.pipeline.schedule = schedule;
  layout.over = AxisSet{Axis::tp};
  return layout;
}

/// Compares the gradients of the first step and the weights after the second bit by bit; the losses of the copies are
/// added up in another order.
void check_same_weights(const Experiment& experiment, const ModelPointer& model, const Layout& a, const Layout& b) {
  const Outcome first = train(experiment, model, a, 2);
  const Outcome second = train(experiment, model, b, 2);
  CHECK(first.gradients == second.gradients);
  CHECK(first.weights == second.weights);
  REQUIRE(first.losses.size() == second.losses.size());
  for (std::size_t i = 0; i < first.losses.size(); ++i)
    CHECK(first.losses[i] == close_to(second.losses[i]).epsilon(tolerance_of(experiment).losses));
}

}  // namespace

TEST_CASE("two copies of each stage train as two data-parallel ranks with half of the micro-batches, bit for bit") {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    CAPTURE(seed);
    RandomStream draws({seed}, Purpose::test, 40, 0);
    const ModelPointer model = random_model(draws, {.with_norms = seed % 2 == 0}, Mesh());
    Experiment experiment = small_experiment(20, 24, 6, DType::f32);
    experiment.seed = static_cast<std::int64_t>(seed);
    if (seed % 3 == 0) experiment.train.shard = ShardedState::optimizer;
    if (seed % 3 == 1) experiment.head.parallel = HeadParallel::replicated;
    Layout flat{Mesh(2, 1, 1), 4};
    flat.over = AxisSet{Axis::tp};
    if (experiment.head.is_replicated()) flat.over = every_axis;
    for (const char* const schedule : {"chimera", "dualpipe"})
      for (const int ranks : {2, 4}) {
        CAPTURE(schedule);
        CAPTURE(ranks);
        if (static_cast<int>(model->applications().size()) < ranks) continue;
        Layout layout = layout_of(schedule, ranks, 8);
        layout.over = flat.over;
        check_same_weights(experiment, model, layout, flat);
      }
  }
}

TEST_CASE("the copies of a stage hold the same bits, which check_replicas compares") {
  RandomStream draws({1}, Purpose::test, 41, 0);
  const ModelPointer model = random_model(draws, {.with_norms = true}, Mesh());
  const Experiment experiment = small_experiment(20, 24, 6, DType::f32);
  const Layout layout = layout_of("chimera", 2, 4);
  const Course course{.first = 0, .end = 2, .after = [](Trainer& trainer) { check_replicas(trainer, 1); }};
  CHECK_NOTHROW((void)train(experiment, model, layout, course));
  const Course broken{.first = 0, .end = 2, .after = [](Trainer& trainer) {
                        if (trainer.rank().index == 1) trainer.parameters().all().front()->value.fill(0);
                        check_replicas(trainer, 1);
                      }};
  CHECK(message_of<RankFailed>([&] {
          (void)train(experiment, model, layout, broken);
        }).find("differs between its replicas on ranks 0, 1") != std::string::npos);
}

TEST_CASE("a step's clipping norm counts a parameter of two copies once, and plan counts the bytes of both") {
  RandomStream draws({2}, Purpose::test, 42, 0);
  const ModelPointer model = random_model(draws, {.with_norms = true}, Mesh());
  Experiment experiment = small_experiment(20, 24, 6, DType::f64);
  experiment.train.clip.norm = 0.5;
  for (const AxisSet over : {AxisSet{Axis::tp}, every_axis}) {
    Layout layout = layout_of("dualpipe", 2, 8);
    layout.over = over;
    check_against_reference(experiment, model, layout);
    const std::vector<Use> uses = use_of_step(experiment, model, layout);
    CHECK(uses == use_of_step(experiment, model, layout, "plan"));
    // Both ranks hold all parameters of the model.
    const auto parameters = static_cast<std::size_t>(Category::parameters);
    if (over != every_axis) CHECK(uses[0].bytes[parameters] == uses[1].bytes[parameters]);
  }
}

TEST_CASE("with train.shard = optimizer, each copy keeps the optimizer's state of half of the elements") {
  RandomStream draws({2}, Purpose::test, 42, 0);
  const ModelPointer model = random_model(draws, {}, Mesh());
  Experiment experiment = small_experiment(20, 24, 6, DType::f32);
  experiment.head.momentum = MomentumState::none;
  const auto optimizer_bytes = [&](ShardedState shard) {
    experiment.train.shard = shard;
    std::int64_t bytes = 0;
    for (const Use& use : use_of_step(experiment, model, layout_of("chimera", 2, 4)))
      bytes += use.bytes[static_cast<std::size_t>(Category::optimizer)];
    return bytes;
  };
  CHECK(optimizer_bytes(ShardedState::none) == 2 * optimizer_bytes(ShardedState::optimizer));
}

TEST_CASE("an experiment with two copies of each stage: what it refuses") {
  Experiment experiment = small_experiment(20, 24, 6, DType::f32);
  const auto refused = [&] { return message_of<InputError>([&] { check(experiment); }); };
  experiment.pipeline.schedule = "chimera";
  experiment.mesh.pp = 3;
  experiment.train.micro_batches = 6;
  const std::string why = ": each rank has a stage of either direction, and half of the micro-batches go each way";
  CHECK(refused() == "pipeline: chimera: expected an even number of ranks, got 3" + why);
  experiment.mesh.pp = 1;
  CHECK(refused() == "pipeline: chimera: expected an even number of ranks, got 1" + why);
  experiment.mesh.pp = 2;
  experiment.train.micro_batches = 3;
  CHECK(refused() == "pipeline: chimera: expected an even number of micro-batches, got 3" + why);
  experiment.train.micro_batches = 4;
  CHECK(refused() == "no error");
  const Scratch folder;
  experiment.pipeline.schedule = "csv";
  experiment.pipeline.file = (folder / "schedule.csv").string();
  write_file_atomically(experiment.pipeline.file, to_csv(make_schedule("chimera", {2, 4})));
  CHECK(refused() == "pipeline: " + experiment.pipeline.file +
                         ": expected one copy of each stage: the two copies of chimera and dualpipe are trained by "
                         "name");
}

}  // namespace heddle::test::stage_copies_test

// The serial run is the reference for pipelines, too: stages and schedules do not change a bit.
#include <algorithm>
#include <cstdlib>

#include <doctest/doctest.h>

#include "framework/description/describe.h"
#include "framework/files/atomic_file.h"
#include "parallel/pipeline/schedules.h"
#include "tests/support/devices.h"
#include "tests/support/message.h"
#include "tests/support/random_model.h"
#include "tests/support/scratch.h"

namespace heddle::test::pipeline_test {

namespace {

using test::Layout;

/// A random shape that the schedule takes, with at most this many stages.
ScheduleShape random_shape(RandomStream& draws, const ScheduleType& type, int max_stages) {
  for (;;) {
    const int ranks = 1 + static_cast<int>(draws.below(8));
    const int most = type.max_chunks.value_or(4);
    const int chunks =
        type.min_chunks + static_cast<int>(draws.below(static_cast<std::uint64_t>(most - type.min_chunks + 1)));
    const int micro_batches = 1 + static_cast<int>(draws.below(16));
    if (ranks * chunks > max_stages) continue;
    try {
      (void)make_schedule(type.name, {ranks, micro_batches, chunks});
      return {ranks, micro_batches, chunks};
    } catch (const InputError&) {
      continue;  // too few micro-batches, or not a multiple
    }
  }
}

/// Recomputation of any kind, sometimes of all layers; or what is kept is offloaded.
void draw_recomputation(RandomStream& draws, PipelineConfig& pipeline) {
  pipeline.recompute = static_cast<Recompute>(draws.below(4));
  if (pipeline.recompute == Recompute::never && draws.below(2) == 0) pipeline.recompute_layers = {"*"};
  if (pipeline.recompute == Recompute::never || pipeline.recompute == Recompute::sqrt)
    pipeline.offload = static_cast<Offload>(draws.below(3));
}

void check_random_case(std::uint64_t seed) {
  RandomStream draws({seed}, Purpose::test, 4, 0);
  const std::span<const ScheduleType> types = schedule_types();
  const ScheduleType& type = types[seed % types.size()];
  const bool with_norms = draws.below(2) == 0;
  const int dp = 1 + static_cast<int>(draws.below(2));
  const int tp = 1 + static_cast<int>(draws.below(2));
  const test::ModelPointer model = test::random_model(draws, {.with_norms = with_norms}, Mesh(dp, 1, tp));
  const ScheduleShape shape = random_shape(draws, type, static_cast<int>(model->applications().size()));
  Layout layout{Mesh(dp, shape.ranks, tp), shape.micro_batches};
  layout.pipeline.schedule = std::string(type.name);
  layout.pipeline.chunks = shape.chunks;
  draw_recomputation(draws, layout.pipeline);
  layout.pipeline.receives = static_cast<Receives>(draws.below(2));
  layout.over = seed % 3 == 0 ? AxisSet{Axis::dp} : seed % 3 == 1 ? AxisSet{Axis::tp} : test::last_stage;
  Layout flat{Mesh(dp, 1, tp), shape.micro_batches};
  flat.over = layout.over;
  // Without norms micro-batches may also be empty.
  const std::int64_t least = with_norms ? 2 * dp * shape.micro_batches : 1;
  const std::int64_t batch = least + static_cast<std::int64_t>(draws.below(9));
  Experiment experiment = test::small_experiment(20, batch, 6, DType::f32);
  experiment.seed = static_cast<std::int64_t>(seed);
  if (draws.below(2) == 0) experiment.train.clip.norm = 0.5;
  if (dp > 1 && draws.below(2) == 0) experiment.train.shard = ShardedState::optimizer;
  CAPTURE(seed);
  CAPTURE(type.name);
  CAPTURE(to_string(layout.mesh));
  CAPTURE(to_string(layout.over));
  CAPTURE(shape.micro_batches);
  CAPTURE(shape.chunks);
  CAPTURE(name_of(layout.pipeline.recompute));
  CAPTURE(layout.pipeline.recompute_layers.size());
  CAPTURE(name_of(layout.pipeline.offload));
  CAPTURE(static_cast<int>(experiment.train.shard));
  CAPTURE(batch);
  // Two copies of each stage add up their gradients last, in another order than one stage.
  if (type.copies > 1) return test::check_against_reference(experiment, model, layout);
  test::check_same_bits(experiment, model, layout, flat);
}

}  // namespace

TEST_CASE("random models give the same bits in random stages under every schedule as in one stage") {
  const char* const cases = std::getenv("HEDDLE_TEST_LAYOUTS");
  const std::uint64_t count = cases != nullptr ? std::strtoull(cases, nullptr, 10) : 120;
  for (std::uint64_t seed = 0; seed < count; ++seed) check_random_case(seed);
}

TEST_CASE("a head over all ranks of a pipeline equals the serial reference") {
  for (const char* const schedule :
       {"naive", "gpipe", "1f1b", "zb_h1", "zb_v", "dualpipe_v", "hanayo", "chimera", "dualpipe"}) {
    CAPTURE(schedule);
    RandomStream draws({7}, Purpose::test, 5, 0);
    const test::ModelPointer model = test::random_model(draws, {}, Mesh());
    Layout layout{Mesh(1, copies_of_stages(schedule) > 1 ? 2 : 3, 1), 6};
    layout.pipeline.schedule = schedule;
    test::check_against_reference(test::small_experiment(33, 17, 6, DType::f64), model, layout);
  }
}

TEST_CASE("a head over any axes under any schedule equals the serial reference" *
          doctest::test_suite(test::long_under_sanitizers)) {
  std::uint64_t draw = 0;
  for (const ScheduleType& type : schedule_types())
    for (const AxisSet& over : {AxisSet{Axis::dp}, AxisSet{Axis::pp}, AxisSet{Axis::tp}, AxisSet{Axis::dp, Axis::pp},
                                AxisSet{Axis::pp, Axis::tp}, test::last_stage, every_axis}) {
      RandomStream draws({++draw}, Purpose::test, 9, 0);
      const test::ModelPointer model = test::random_model(draws, {}, Mesh());
      const ScheduleShape shape = random_shape(draws, type, static_cast<int>(model->applications().size()));
      Layout layout{Mesh(2, shape.ranks, shape.ranks > 2 ? 1 : 2), shape.micro_batches};
      layout.logits = static_cast<Logits>(draws.below(4));
      layout.over = over;
      layout.pipeline.schedule = std::string(type.name);
      layout.pipeline.chunks = shape.chunks;
      Experiment experiment = test::small_experiment(33, 17, 6, draw % 2 == 0 ? DType::f64 : DType::f32);
      if (draws.below(2) == 0) experiment.train.clip.norm = 0.5;
      CAPTURE(type.name);
      CAPTURE(to_string(over));
      CAPTURE(static_cast<int>(layout.logits));
      test::check_against_reference(experiment, model, layout);
    }
}

TEST_CASE("a schedule of a file with micro-batches in any order equals the serial reference") {
  const Scratch folder;
  Layout layout{Mesh(1, 2, 1), 4};
  layout.pipeline.schedule = "csv";
  layout.pipeline.file = (folder / "schedule.csv").string();
  write_file_atomically(layout.pipeline.file,
                        "0F1,0F0,0F2,0F3,0B1,0B0,0B3,0B2\n"
                        "1F1,1F0,1B1,1B0,1F2,1F3,1B3,1B2\n");
  for (const AxisSet over : {test::last_stage, every_axis})
    for (const Recompute recompute : {Recompute::never, Recompute::always}) {
      layout.over = over;
      layout.pipeline.recompute = recompute;
      RandomStream draws({9}, Purpose::test, 7, 0);
      const test::ModelPointer model = test::random_model(draws, {.with_norms = true}, Mesh());
      test::check_against_reference(test::small_experiment(33, 17, 6, DType::f64), model, layout);
    }
}

TEST_CASE("forward only a file's schedule needs no backward; no optimizer is made; plan knows the bytes") {
  const Scratch folder;
  RandomStream draws({9}, Purpose::test, 8, 0);
  const test::ModelPointer model = test::random_model(draws, {}, Mesh());
  Experiment experiment = test::small_experiment(33, 17, 6, DType::f32);
  Layout layout{Mesh(1, 2, 1), 4};
  layout.pipeline.schedule = "csv";
  layout.pipeline.file = (folder / "schedule.csv").string();
  write_file_atomically(layout.pipeline.file, "0F1,0F0,0F3,0F2\n1F1,1F0,1F3,1F2\n");
  const auto planned = [&](std::int64_t micro_batches) {
    experiment.mesh.pp = 2;
    experiment.train.micro_batches = micro_batches;
    experiment.pipeline = layout.pipeline;
    return plan_run(experiment, model, layout.mesh);
  };
  CHECK(message_of<InputError>([&] { (void)planned(4); }) ==
        layout.pipeline.file + ": has no backward, so that it cannot train");
  experiment.train.forward_only = true;
  CHECK(message_of<InputError>([&] { (void)planned(3); }) ==
        layout.pipeline.file + ": expected train.micro_batches = 3 micro-batches, got 4");
  CHECK(planned(4)->forward->schedule.ranks[0].front() == Action{ActionKind::forward, 0, 1});
  const std::vector<test::Use> uses = test::use_of_step(experiment, model, layout);
  CHECK(uses == test::use_of_step(experiment, model, layout, "plan"));
  for (const test::Use& use : uses) {
    CHECK(use.bytes[static_cast<std::size_t>(Category::optimizer)] == 0);
    CHECK(use.bytes[static_cast<std::size_t>(Category::parameters)] > 0);
  }
  CHECK(uses[0].sent > 0);
}

TEST_CASE("plan counts what the ranks of pipelines hold and send, to the byte" *
          doctest::test_suite(test::long_under_sanitizers)) {
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    RandomStream draws({seed}, Purpose::test, 6, 0);
    const std::span<const ScheduleType> types = schedule_types();
    const ScheduleType& type = types[seed % types.size()];
    const int dp = 1 + static_cast<int>(draws.below(2));
    const int tp = 1 + static_cast<int>(draws.below(2));
    const test::ModelPointer model = test::random_model(draws, {.with_norms = draws.below(2) == 0}, Mesh(dp, 1, tp));
    const ScheduleShape shape = random_shape(draws, type, static_cast<int>(model->applications().size()));
    Layout layout{Mesh(dp, shape.ranks, tp), shape.micro_batches};
    layout.pipeline.schedule = std::string(type.name);
    layout.pipeline.chunks = shape.chunks;
    draw_recomputation(draws, layout.pipeline);
    layout.over = test::random_axes(draws);
    Experiment experiment = test::small_experiment(20, 2 * dp * shape.micro_batches + 1, 6, DType::f32);
    if (dp > 1 && draws.below(2) == 0) experiment.train.shard = ShardedState::optimizer;
    CAPTURE(seed);
    CAPTURE(type.name);
    CAPTURE(to_string(layout.mesh));
    CAPTURE(name_of(layout.pipeline.recompute));
    CAPTURE(layout.pipeline.recompute_layers.size());
    CAPTURE(name_of(layout.pipeline.offload));
    CAPTURE(static_cast<int>(experiment.train.shard));
    CHECK(test::use_of_step(experiment, model, layout, "plan") == test::use_of_step(experiment, model, layout));
  }
}

}  // namespace heddle::test::pipeline_test

// Training with activations in the host's memory: the same bits, less memory, and the times of the host's links.
#include <algorithm>
#include <array>

#include <doctest/doctest.h>

#include "experiments/training/experiment_checks.h"
#include "experiments/training/run.h"
#include "framework/files/atomic_file.h"
#include "parallel/pipeline/schedules.h"
#include "tests/support/compare/close_to.h"
#include "tests/support/devices.h"
#include "tests/support/layouts.h"
#include "tests/support/random_model.h"
#include "tests/support/scratch.h"

namespace heddle::test::offload_run_test {
namespace {

constexpr std::array modes{Offload::half, Offload::all};

/// Stages of a model on two ranks under a schedule.
Layout layout_of(const ScheduleType& type, Offload offload) {
  Layout layout{Mesh(1, 2, 1), 8};
  layout.over = last_stage;
  layout.pipeline.schedule = std::string(type.name);
  layout.pipeline.chunks = type.min_chunks;
  layout.pipeline.offload = offload;
  return layout;
}

/// Two steps of ResNet-18 in four stages.
Experiment resnet(DeviceType device, Offload offload) {
  Experiment experiment = small_experiment(50, 16, 16, DType::f32);
  experiment.device = device;
  experiment.model.type = ModelType::resnet18;
  experiment.data.synthetic_identities.image = {3, 16, 16};
  experiment.mesh.pp = 4;
  experiment.head.over = last_stage;
  experiment.train.micro_batches = 8;
  experiment.train.steps = 2;
  experiment.train.save = false;
  experiment.pipeline.schedule = "gpipe";
  experiment.pipeline.offload = offload;
  experiment.pipeline.predict = false;
  return experiment;
}

VariantResult result_of(const Experiment& experiment) {
  VariantResult result = run_variant(experiment, "a", RunSettings{});
  REQUIRE(result.error.empty());
  return result;
}

}  // namespace

TEST_CASE(
    "under every schedule, offloading changes no bit of losses, gradients and weights, and plan counts its bytes" *
    doctest::test_suite(test::long_under_sanitizers)) {
  std::uint64_t draw = 0;
  for (const ScheduleType& type : schedule_types()) {
    RandomStream draws({++draw}, Purpose::test, 30, 0);
    const ModelPointer model = random_model(draws, {.with_norms = true}, Mesh());
    const Experiment experiment = small_experiment(20, 16, 6, DType::f32);
    for (const Offload mode : modes) {
      CAPTURE(type.name);
      CAPTURE(name_of(mode));
      const Layout offloaded = layout_of(type, mode);
      check_same_bits(experiment, model, offloaded, layout_of(type, Offload::never));
      CHECK(use_of_step(experiment, model, offloaded, "plan") == use_of_step(experiment, model, offloaded));
    }
  }
}

TEST_CASE("recomputed segments and layers, whose inputs are offloaded, give the same bits") {
  RandomStream draws({3}, Purpose::test, 31, 0);
  const ModelPointer model = random_model(draws, {.with_norms = true}, Mesh());
  for (const Recompute recompute : {Recompute::never, Recompute::sqrt}) {
    Layout whole = layout_of(schedule_types()[1], Offload::never);
    whole.pipeline.recompute = recompute;
    if (recompute == Recompute::never) whole.pipeline.recompute_layers = {"*"};
    Layout offloaded = whole;
    offloaded.pipeline.offload = Offload::all;
    check_same_bits(small_experiment(20, 16, 6, DType::f32), model, offloaded, whole);
  }
}

TEST_CASE("offloaded activations leave the ranks' memory") {
  const auto peaks = [](Offload offload) {
    std::pair<std::int64_t, std::int64_t> largest;  // activations, offloaded
    for (const RankResult& rank : result_of(resnet(DeviceType::plan, offload)).ranks) {
      largest.first = std::max(largest.first, rank.peak[Category::activations]);
      largest.second = std::max(largest.second, rank.peak_offloaded);
    }
    return largest;
  };
  const auto [whole, none] = peaks(Offload::never);
  const auto [half, some] = peaks(Offload::half);
  const auto [little, most] = peaks(Offload::all);
  CHECK(none == 0);
  CHECK(some > 0);
  CHECK(most > some);
  // At most five, or three, of the eight micro-batches are held.
  CHECK(static_cast<double>(half) < 0.7 * static_cast<double>(whole));
  CHECK(static_cast<double>(little) < 0.5 * static_cast<double>(whole));
}

TEST_CASE("in virtual time, a fast link to the host costs nothing, and a slow one holds the ranks up") {
  const auto seconds = [](Offload offload, double bandwidth) {
    Experiment experiment = resnet(DeviceType::plan, offload);
    experiment.pipeline.schedule = "1f1b";
    experiment.links.host = {.latency = 0, .bandwidth = bandwidth};
    return step_seconds(result_of(experiment))->median;
  };
  const double whole = seconds(Offload::never, 1);
  CHECK(seconds(Offload::all, 1e12) == close_to(whole).epsilon(1e-3));
  CHECK(seconds(Offload::half, 1e7) > 1.2 * whole);
  CHECK(seconds(Offload::all, 1e7) > 1.2 * seconds(Offload::half, 1e7));
}

TEST_CASE("an experiment whose schedule keeps nothing to offload is refused") {
  const auto refused = [](const char* error, Experiment experiment) {
    CHECK_THROWS_WITH_AS(check(experiment), error, KeyError);
  };
  Experiment experiment = resnet(DeviceType::cpu, Offload::half);
  check(experiment);
  experiment.pipeline.recompute = Recompute::sqrt;
  check(experiment);
  experiment.pipeline.recompute = Recompute::always;
  refused(
      "pipeline.offload: expected \"never\" with pipeline.recompute always: it keeps no activations that could be "
      "offloaded (\"sqrt\" does)",
      experiment);
  experiment.pipeline.recompute = Recompute::except_last;
  refused(
      "pipeline.offload: expected \"never\" with pipeline.recompute except_last: it keeps no activations that could be "
      "offloaded (\"sqrt\" does)",
      experiment);
  experiment = resnet(DeviceType::cpu, Offload::all);
  experiment.train.forward_only = true;
  refused("pipeline.offload: expected \"never\" with train.forward_only: a forward pass keeps no activations",
          experiment);
}

TEST_CASE("a schedule of a file may have O and L; offloading it again is refused") {
  const Scratch folder;
  Layout layout{Mesh(1, 2, 1), 4};
  layout.over = last_stage;
  layout.pipeline.schedule = "csv";
  layout.pipeline.file = (folder / "schedule.csv").string();
  write_file_atomically(layout.pipeline.file,
                        "0F0,0O0,0F1,0F2,0L0,0F3,0B0,0B1,0B2,0B3\n1F0,1F1,1F2,1F3,1B0,1B1,1B2,1B3\n");
  Layout gpipe{Mesh(1, 2, 1), 4};
  gpipe.over = last_stage;
  gpipe.pipeline.schedule = "gpipe";
  RandomStream draws({5}, Purpose::test, 32, 0);
  const ModelPointer model = random_model(draws, {.with_norms = true}, Mesh());
  const Experiment trained = small_experiment(20, 16, 6, DType::f32);
  check_same_bits(trained, model, layout, gpipe);
  CHECK(use_of_step(trained, model, layout)[0].offloaded > 0);
  CHECK(use_of_step(trained, model, layout)[1].offloaded == 0);

  Experiment experiment = resnet(DeviceType::cpu, Offload::never);
  experiment.mesh.pp = 2;
  experiment.train.micro_batches = 4;
  experiment.pipeline = layout.pipeline;
  experiment.pipeline.recompute = Recompute::always;
  const std::string error = "pipeline: " + layout.pipeline.file + ": rank 0, cell 7: 0R0: in addition to 0O0\n";
  CHECK_THROWS_WITH_AS(check(experiment), doctest::Contains(error.c_str()), KeyError);
  experiment.pipeline.recompute = Recompute::never;
  experiment.pipeline.offload = Offload::half;
  CHECK_THROWS_WITH_AS(check(experiment), "pipeline: offload: expected a schedule without O and L of its own",
                       KeyError);
}

TEST_CASE("the trace has the transfers with their bytes") {
  const VariantResult result = result_of(resnet(DeviceType::plan, Offload::all));
  const std::vector<Span>& trace = result.ranks[0].trace;
  const auto named = [&](const char* name) {
    const auto span = std::find_if(trace.begin(), trace.end(), [&](const Span& s) { return s.name == name; });
    REQUIRE(span != trace.end());
    return *span;
  };
  CHECK(named("0O0").is_communication);
  CHECK(named("0O0").bytes > 0);
  CHECK(named("0L0").bytes == named("0O0").bytes);
  CHECK(named("0L0").begin_seconds > named("0O0").begin_seconds);
}

}  // namespace heddle::test::offload_run_test

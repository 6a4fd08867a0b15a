// pipeline.head_work: the head's work in parts, between which the ranks of all stages compute something else. With two
// exchanges it has the bits of a head at once.
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "experiments/training/experiment_checks.h"
#include "experiments/training/run.h"
#include "parallel/pipeline/schedules.h"
#include "tests/support/compare/close_to.h"
#include "tests/support/message.h"
#include "tests/support/random_model.h"

namespace heddle::test::head_work_test {

namespace {

Layout with_work(HeadWork work, Layout layout) {
  layout.pipeline.head_work = work;
  return layout;
}

/// Layouts whose class axes contain pp.
AxisSet random_axes_with_stages(RandomStream& draws) {
  AxisSet over = random_axes(draws);
  over.insert(Axis::pp);
  return over;
}

/// A head of any kind whose work can be divided.
void draw_head(RandomStream& draws, Experiment& experiment) {
  HeadConfig& head = experiment.head;
  if (draws.below(3) == 0) head.margin.type = MarginType::adaface;
  if (draws.below(4) == 0)
    head.sub_centres = 2;
  else if (draws.below(4) == 0)
    head.stash = true;
  if (draws.below(3) == 0) head.sample.rate = 0.5;
}

Layout random_layout(RandomStream& draws, const ScheduleType& type, int max_stages) {
  for (;;) {
    const int ranks = 1 + static_cast<int>(draws.below(4));
    const int micro_batches = 1 + static_cast<int>(draws.below(12));
    const int chunks = default_chunks(type.name);
    if (ranks * chunks > max_stages) continue;
    try {
      (void)make_schedule(type.name, {ranks, micro_batches, chunks});
    } catch (const InputError&) {
      continue;  // too few micro-batches, or not a multiple
    }
    const int dp = 1 + static_cast<int>(draws.below(2));
    Layout layout{Mesh(dp, ranks, ranks * dp > 4 ? 1 : 2), micro_batches, Logits::fused};
    layout.pipeline.schedule = std::string(type.name);
    layout.pipeline.receives = static_cast<Receives>(draws.below(2));
    layout.pipeline.recompute = static_cast<Recompute>(draws.below(4));
    return layout;
  }
}

}  // namespace

TEST_CASE(
    "a head in two exchanges has the bits of a head at once, one in one its numbers, and plan counts their bytes") {
  std::uint64_t seed = 0;
  for (const ScheduleType& type : schedule_types())
    for (int i = 0; i < fewer_if_sanitized(4, 1); ++i) {
      ++seed;
      if (is_sanitized && seed % 3 != 0) continue;  // most schedules take the same way through the head
      RandomStream draws({seed}, Purpose::test, 40, 0);
      const ModelPointer model = random_model(draws, {}, Mesh());
      Layout layout = random_layout(draws, type, static_cast<int>(model->applications().size()));
      layout.over = random_axes_with_stages(draws);
      Experiment experiment = small_experiment(33, 17, 6, DType::f32);
      experiment.seed = static_cast<std::int64_t>(seed);
      draw_head(draws, experiment);
      if (draws.below(2) == 0) experiment.train.clip.norm = 0.5;
      CAPTURE(type.name);
      CAPTURE(to_string(layout.mesh));
      CAPTURE(to_string(layout.over));
      CAPTURE(layout.micro_batches);
      check_same_bits(experiment, model, with_work(HeadWork::two_exchanges, layout), layout);
      check_close(experiment, model, with_work(HeadWork::one_exchange, layout), layout);
      if (experiment.head.samples()) continue;
      for (const HeadWork work : {HeadWork::two_exchanges, HeadWork::one_exchange})
        CHECK(use_of_step(experiment, model, with_work(work, layout), "plan") ==
              use_of_step(experiment, model, with_work(work, layout)));
    }
}

TEST_CASE("a head in two exchanges whose reference follows the logits has the bits of a head at once") {
  RandomStream draws({8}, Purpose::test, 43, 0);
  const ModelPointer model = random_model(draws, {}, Mesh());
  for (const bool normalize : {false, true})
    for (const Mesh& mesh : {Mesh(1, 3), Mesh(2, 2), Mesh(1, 2, 2)}) {
      Experiment experiment = small_experiment(33, 24, 6, DType::f32);
      experiment.head.normalize = normalize;
      experiment.head.margin =
          normalize ? MarginConfig{.scale = 64, .combined = {.m3 = 0.35}} : MarginConfig{.scale = 1};
      const Layout layout{mesh, 6, Logits::fused, pipeline_by("1f1b_plus_2")};
      CAPTURE(to_string(mesh));
      const Layout divided = with_work(HeadWork::two_exchanges, layout);
      check_same_bits(experiment, model, divided, layout);
      CHECK(use_of_step(experiment, model, divided, "plan") == use_of_step(experiment, model, divided));
    }
}

TEST_CASE("the heads of two data sets in parts") {
  RandomStream draws({5}, Purpose::test, 41, 0);
  const ModelPointer model = random_model(draws, {}, Mesh());
  Experiment experiment = small_experiment(20, 24, 6, DType::f32);
  experiment.data.name = "first";
  experiment.further_data.push_back(experiment.data);
  experiment.further_data[0].name = "second";
  experiment.further_heads.push_back(experiment.head);
  experiment.further_heads[0].classes = 12;
  experiment.further_heads[0].logits = Logits::fused;
  Layout layout{Mesh(1, 3), 6, Logits::fused, pipeline_by("1f1b_plus_2")};
  check_same_bits(experiment, model, with_work(HeadWork::two_exchanges, layout), layout);
  check_close(experiment, model, with_work(HeadWork::one_exchange, layout), layout);
}

TEST_CASE("a head in parts in bf16") {
  RandomStream draws({6}, Purpose::test, 42, 0);
  const ModelPointer model = random_model(draws, {}, Mesh());
  Experiment experiment = small_experiment(20, 24, 6, DType::bf16);
  const Layout layout{Mesh(2, 2), 4, Logits::fused, pipeline_by("1f1b_plus_2")};
  check_same_bits(experiment, model, with_work(HeadWork::two_exchanges, layout), layout);
  check_close(experiment, model, with_work(HeadWork::one_exchange, layout), layout);
}

namespace {

Experiment experiment_in_two_stages() {
  Experiment experiment = small_experiment(20, 24, 6, DType::f32);
  experiment.mesh.pp = 2;
  experiment.train.micro_batches = 4;
  experiment.train.steps = 5;
  experiment.model = {.type = ModelType::mlp, .embedding = 6, .hidden = {9}};
  experiment.head.logits = Logits::fused;
  return experiment;
}

}  // namespace

TEST_CASE("a head in parts with a loss in every second step") {
  Experiment experiment = experiment_in_two_stages();
  experiment.head.loss_every = 2;
  const auto losses = [&](HeadWork work) {
    experiment.pipeline.head_work = work;
    const VariantResult result = run_variant(experiment, "base");
    REQUIRE(result.status == VariantResult::Status::ok);
    std::vector<std::optional<double>> all;
    for (std::size_t i = 0; i < result.steps.size(); ++i) all.push_back(result.steps[i].loss);
    return all;
  };
  const std::vector<std::optional<double>> at_once = losses(HeadWork::at_once);
  const std::vector<std::optional<double>> in_one = losses(HeadWork::one_exchange);
  CHECK(losses(HeadWork::two_exchanges) == at_once);
  for (std::size_t i = 0; i < at_once.size(); ++i) {
    REQUIRE(in_one[i].has_value() == at_once[i].has_value());
    if (at_once[i]) CHECK(*in_one[i] == close_to(*at_once[i]).epsilon(2e-5));
  }
  CHECK_FALSE(at_once[1].has_value());
  CHECK(at_once[2].has_value());
}

TEST_CASE("an experiment whose head cannot work in parts is refused") {
  Experiment valid = experiment_in_two_stages();
  valid.pipeline.head_work = HeadWork::two_exchanges;
  check(valid);
  const auto refusal = [&](const auto& change) {
    Experiment experiment = valid;
    change(experiment);
    return message_of<KeyError>([&] { check(experiment); });
  };
  CHECK(refusal([](Experiment& e) { e.train.forward_only = true; }) ==
        "pipeline.head_work: expected \"at_once\" with train.forward_only: a forward pass has no loss");
  const std::string key = "pipeline.head_work: ";
  CHECK(refusal([](Experiment& e) { e.head.over = last_stage; }) == key + "two_exchanges needs pp in head.over");
  CHECK(refusal([](Experiment& e) { e.head.parallel = HeadParallel::replicated; }) ==
        key + "two_exchanges needs head.parallel \"sharded\"");
  CHECK(refusal([](Experiment& e) { e.head.logits = Logits::sharded; }) ==
        key + "two_exchanges needs head.logits \"fused\", got \"sharded\"");
  CHECK(refusal([](Experiment& e) { e.head.margin.type = MarginType::curricularface; }) ==
        key +
            "two_exchanges needs head.margin of another type: this one first needs the products of all samples with "
            "their classes");
  CHECK(refusal([](Experiment& e) { e.head.loss_reduction = LossReduction::reduce_scatter; }) ==
        key + "two_exchanges needs head.loss_reduction \"all_reduce\"");
  valid.pipeline.head_work = HeadWork::one_exchange;
  CHECK(refusal([](Experiment& e) { e.head.normalize = false; }) ==
        key + "one_exchange needs head.normalize true (two_exchanges does not)");
  CHECK(refusal([](Experiment& e) { e.head.margin.scale = 1000; }) ==
        key +
            "one_exchange needs head.margin.scale below 1000, with which exponentials overflow f32 unless the largest "
            "logit is known (two_exchanges does not)");
}

}  // namespace heddle::test::head_work_test

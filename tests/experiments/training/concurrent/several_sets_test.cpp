// Several data sets that train one backbone, each with its own head: against the serial run, against trainings on each
// set alone, and from checkpoints.
#include <algorithm>

#include <doctest/doctest.h>

#include "experiments/training/run.h"
#include "tests/experiments/training/concurrent/checkpoint_ways.h"
#include "tests/support/compare/close_to.h"
#include "tests/support/message.h"
#include "tests/support/ranks.h"
#include "tests/support/scratch.h"

namespace heddle::test::several_sets_test {

namespace {

using checkpoint_ways::resuming;
using checkpoint_ways::saving;
using checkpoint_ways::Way;
using checkpoint_ways::ways;
using test::Layout;

/// Two thirds of a batch of 24 are of 11 people, the others of 4 other people.
Experiment two_sets(DType dtype = DType::f64) {
  Experiment experiment = test::small_experiment(11, 24, 6, dtype);
  experiment.data.name = "large";
  experiment.data.share = 2;
  experiment.data.augmentation.shift = 1;
  DataConfig& small = experiment.further_data.emplace_back(experiment.data);
  small.name = "small";
  small.share = 1;
  small.synthetic_identities.identities = 4;
  small.augmentation = {.flip = 0.5};
  HeadConfig& head = experiment.further_heads.emplace_back(experiment.head);
  head.classes = 5;
  head.margin = {.scale = 12, .combined = {.m3 = 0.1}};
  head.logits = Logits::fused;
  head.loss_weight = 0.25;
  return experiment;
}

test::ModelPointer mlp() {
  return std::make_shared<ModelSpec>(
      make_model({.type = ModelType::mlp, .embedding = 6, .hidden = {9}}, {.channels = 3, .height = 8, .width = 8}));
}

using ChangeHeads = std::function<void(HeadConfig& first, HeadConfig& second)>;

/// Pairs of heads of every kind.
std::vector<std::pair<std::string, ChangeHeads>> pairs_of_heads() {
  return {{"sharded and fused", [](HeadConfig&, HeadConfig&) {}},
          {"replicated beside sharded",
           [](HeadConfig& first, HeadConfig&) {
             first.parallel = HeadParallel::replicated;
             first.over = every_axis;
           }},
          {"with running statistics and sub-centres",
           [](HeadConfig& first, HeadConfig& second) {
             first.margin = {.type = MarginType::adaface, .scale = 8};
             second.margin = {.type = MarginType::curricularface, .scale = 8};
             second.sub_centres = 3;
           }},
          {"sampled, with the same shards on all layouts",
           [](HeadConfig& first, HeadConfig& second) {
             first.sample = {.rate = 0.5, .unsampled = Unsampled::dense, .shards = 3};
             second.sample = {.rate = 0.5, .unsampled = Unsampled::lazy, .shards = 2};
           }},
          {"with biases", [](HeadConfig& first, HeadConfig& second) {
             for (HeadConfig* head : {&first, &second}) {
               head->margin = {.scale = 1};
               head->normalize = false;
               head->bias = true;
             }
             second.logits = Logits::transposed;
           }}};
}

}  // namespace

TEST_CASE("several data sets on any mesh give the losses, gradients and weights of the serial run") {
  for (const auto& [name, change] : pairs_of_heads())
    for (const Layout& layout :
         {Layout{Mesh(2), 2}, Layout{Mesh(3), 1}, Layout{Mesh(1, 1, 2), 3}, Layout{Mesh(4, 1, 2), 1},
          Layout{.mesh = Mesh(2, 1, 2), .micro_batches = 3, .over = {Axis::dp}},
          Layout{.mesh = Mesh(2, 1, 2), .micro_batches = 1, .over = {Axis::tp}}}) {
      CAPTURE(name);
      Experiment experiment = two_sets();
      change(experiment.head, experiment.further_heads[0]);
      if (experiment.head.is_replicated() && layout.over != every_axis) continue;
      experiment.train.clip.norm = 0.5;
      test::check_against_reference(experiment, mlp(), layout);
    }
}

TEST_CASE("the second head begins with the same weights, whether the first one is sharded or replicated") {
  Experiment experiment = two_sets();
  for (HeadConfig* head : {&experiment.head, &experiment.further_heads[0]}) {
    head->margin = {.scale = 1};
    head->normalize = false;
    head->bias = true;
  }
  const test::Outcome sharded = test::train(experiment, mlp(), {}, 2);
  experiment.head.parallel = HeadParallel::replicated;
  experiment.head.over = every_axis;
  CHECK(test::train(experiment, mlp(), {}, 2).losses[0] == close_to(sharded.losses[0]).epsilon(1e-12));
}

TEST_CASE("micro-batches of one sample, in which a head sees none, give the same losses and gradients") {
  const Experiment experiment = two_sets();
  const test::Outcome whole = test::train(experiment, mlp(), {}, 2);
  for (const Layout& layout : {Layout{Mesh(), 24}, Layout{Mesh(4, 1, 2), 6}, Layout{Mesh(2, 1, 2), 6}}) {
    const test::Outcome cut = test::train(experiment, mlp(), layout, 2);
    CHECK(test::max_difference(cut.gradients, whole.gradients).error <= 1e-12);
    CHECK(test::max_difference(cut.weights, whole.weights).error <= 1e-12);
    for (std::size_t i = 0; i < 2; ++i) CHECK(cut.losses[i] == close_to(whole.losses[i]).epsilon(1e-12));
  }
}

TEST_CASE("several data sets in pipelines have the bits of the serial run, with heads on all stages or on the last") {
  PipelineConfig interleaved;
  interleaved.schedule = "interleaved";
  interleaved.chunks = 2;
  PipelineConfig recomputed;
  recomputed.schedule = "zb_h1";
  recomputed.recompute = Recompute::always;
  const auto model = checkpoint_ways::network({});
  for (const PipelineConfig& pipeline : {PipelineConfig{}, interleaved, recomputed}) {
    const Experiment experiment = two_sets(DType::f32);
    test::check_same_bits(experiment, model, {Mesh(1, 2), 4, Logits::sharded, pipeline, test::last_stage},
                          {Mesh(), 4, Logits::sharded, {}, test::last_stage});
    test::check_against_reference(experiment, model, {Mesh(2, 2), 2, Logits::sharded, pipeline});
  }
}

TEST_CASE("several data sets with f16, a sharded optimizer and adamw agree with the serial run") {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
    Experiment experiment = two_sets(dtype);
    experiment.train.shard = ShardedState::optimizer;
    if (dtype == DType::f32) {
      experiment.train.optimizer.type = OptimizerType::adamw;
      experiment.train.optimizer.learning_rate = 1e-3;
    }
    test::check_against_reference(experiment, mlp(), {Mesh(2), 2});
  }
}

namespace {

/// The gradients of the first step and the losses of the heads, with all weights set to numbers that depend on
/// their indices alone.
struct FirstStep {
  std::vector<double> losses;
  double loss = 0;
  test::Tensors gradients;
};

FirstStep first_step(const Experiment& experiment, const Dataset& dataset, std::uint64_t key) {
  FirstStep result;
  WorldOptions options = test::ranks(1);
  options.key = {key};
  const auto plan = plan_run(experiment, mlp(), Mesh());
  run_ranks(options, [&](Rank& rank) {
    Tracer tracer(rank.clock, rank.device);
    Trainer trainer(experiment, dataset, rank, tracer, plan);
    for (std::vector<StateTensor> states : {trainer.backbone_state(), trainer.head_state()})
      for (StateTensor& state : states)
        if (!state.name.starts_with("velocity"))
          state.value.copy_from(
              test::tensor(rank.device, state.value.shape(), test::normal_values(state.value.numel(), 5)));
    result.loss = trainer.compute_gradients(0).value();
    result.losses = trainer.losses();
    for (const Parameter* parameter : trainer.parameters().all())
      result.gradients[parameter->name] = parameter->gradient->gradient().to_doubles();
  });
  return result;
}

}  // namespace

TEST_CASE("the gradient is the weighted sum of those of trainings on each data set alone, and so is the loss") {
  Experiment experiment = two_sets();
  experiment.head.parallel = experiment.further_heads[0].parallel =
      HeadParallel::replicated;  // whose gradients are kept
  experiment.head.logits = Logits::sharded;
  experiment.head.loss_weight = 1.5;
  for (DataConfig* data : {&experiment.data, &experiment.further_data[0]}) data->augmentation = {.flip = 0};
  constexpr std::uint64_t seed = 1;
  const auto both = open_datasets(experiment);
  REQUIRE(both->sets() == 2);
  const FirstStep together = first_step(experiment, *both, seed);
  test::Tensors sum;
  double loss = 0;
  for (std::size_t set = 0; set < 2; ++set) {
    Experiment alone = experiment;
    alone.data = experiment.data_of(set);
    alone.data.share = 1;
    alone.head = experiment.head_of(set);
    alone.head.loss_weight = 1;
    alone.further_data.clear();
    alone.further_heads.clear();
    alone.train.batch = set == 0 ? 16 : 8;
    const RandomKey key = key_of_set({seed}, set);
    const FirstStep single = first_step(alone, *make_dataset(alone.data, key), key.seed);
    const double weight = experiment.head_of(set).loss_weight;
    CHECK(together.losses[set] == close_to(single.loss).epsilon(1e-13));
    loss += weight * single.loss;
    for (const auto& [name, gradient] : single.gradients) {
      std::vector<double>& total =
          sum[name == "head.weight" ? "head." + experiment.data_of(set).name + ".weight" : name];
      total.resize(gradient.size());
      for (std::size_t i = 0; i < gradient.size(); ++i) total[i] += weight * gradient[i];
    }
  }
  CHECK(together.loss == close_to(loss).epsilon(1e-13));
  CHECK(test::max_difference(together.gradients, sum).error <= 1e-12);
}

TEST_CASE("plan counts what several heads hold and send, rank by rank, to the byte") {
  for (const auto& [name, change] : pairs_of_heads())
    for (const Layout& layout :
         {Layout{Mesh(), 2}, Layout{Mesh(2), 2}, Layout{Mesh(2, 1, 2), 1}, Layout{Mesh(2, 2), 2}}) {
      CAPTURE(name);
      CAPTURE(to_string(layout.mesh));
      Experiment experiment = two_sets(DType::f32);
      change(experiment.head, experiment.further_heads[0]);
      if (experiment.head.is_replicated() && layout.mesh.size(Axis::pp) > 1) continue;
      CHECK(test::use_of_step(experiment, mlp(), layout, "plan") == test::use_of_step(experiment, mlp(), layout));
    }
}

TEST_CASE("rank 0 sends in a step of several heads the bytes of the formulas") {
  for (const MeshConfig mesh : {MeshConfig{.dp = 4}, MeshConfig{.dp = 2, .tp = 2}, MeshConfig{.dp = 2, .pp = 2}})
    for (const double norm : {0.0, 1.0})
      for (const AxisSet over : {every_axis, test::last_stage}) {
        Experiment experiment = two_sets(DType::f32);
        experiment.device = DeviceType::plan;
        experiment.model = {.type = ModelType::mlp, .embedding = 6, .hidden = {9}};
        experiment.mesh = mesh;
        experiment.train.micro_batches = 2;
        experiment.train.clip.norm = norm;
        experiment.head.over = experiment.further_heads[0].over = over;
        CAPTURE(mesh.dp);
        CAPTURE(mesh.pp);
        CAPTURE(norm);
        const VariantResult result = run_variant(experiment, "planned", {});
        REQUIRE(result.error.empty());
        REQUIRE(result.sent_in_step.has_value());
        CHECK(result.sent_in_step->counted == result.sent_in_step->formula.total());
      }
}

TEST_CASE("several heads resume on every layout with the same bits, and continue as if they had not stopped" *
          doctest::test_suite(test::long_under_sanitizers)) {
  const std::vector<Way> all = ways();
  const auto run = [](const Way& way, const test::Course& course) {
    Experiment experiment = two_sets(DType::f32);
    experiment.train.shard = way.shard;
    experiment.head.margin = {.type = MarginType::adaface, .scale = 8};
    experiment.further_heads[0].sample = {.rate = 0.5, .shards = 2};
    for (HeadConfig* head : {&experiment.head, &experiment.further_heads[0]}) head->weights = WeightState::bf16;
    return checkpoint_ways::run(way, experiment, course);
  };
  for (const std::size_t saver : {0, 1, 4, 6, 9, 12}) {
    const Scratch scratch;
    const CheckpointFolder folder(scratch / "");
    const test::Outcome saved = run(all[saver], saving(folder, 2));
    for (const char* name : {"head.large.weight", "velocity.head.large.weight", "head.large.margin",
                             "head.small.weight", "velocity.head.small.weight"})
      CHECK(saved.state.contains(name));
    CHECK_FALSE(saved.state.contains("head.weight"));
    CHECK(run(all[saver], resuming(folder, 2, 4)).state == run(all[saver], {.end = 4}).state);
    for (const std::size_t loader : {0, 2, 5, 6, 8})
      CHECK(run(all[loader], resuming(folder, 2, 2)).state == saved.state);
  }
}

TEST_CASE("a checkpoint of several data sets is refused where one has changed, and the change is named") {
  const Scratch scratch;
  const CheckpointFolder folder(scratch / "");
  const Way way{{Mesh(2), 2}};
  const auto run = [&](const Experiment& experiment, const test::Course& course) {
    return checkpoint_ways::run(way, experiment, course);
  };
  (void)run(two_sets(DType::f32), saving(folder, 2));
  const auto refusal = [&](const std::function<void(Experiment&)>& change) {
    Experiment changed = two_sets(DType::f32);
    change(changed);
    return message_of<InputError>([&] { (void)run(changed, resuming(folder, 2, 3)); });
  };
  const auto is_named = [](const std::string& message, const std::string& change) {
    CAPTURE(message);
    CHECK(message.find("step-000002: was saved by a different experiment (" + change + "): only the number of steps") !=
          std::string::npos);
  };
  is_named(refusal([](Experiment& e) { e.further_heads[0].loss_weight = 0.5; }), "head.1.loss_weight was 0.25, is 0.5");
  is_named(refusal([](Experiment& e) { e.further_data[0].augmentation.flip = 0.25; }),
           "data.1.augmentation.flip was 0.5, is 0.25");
  is_named(refusal([](Experiment& e) { e.further_data[0].name = "tiny"; }), R"(data.1.name was "small", is "tiny")");
  // A layout may change, and what is read ahead.
  Experiment other = two_sets(DType::f32);
  other.further_heads[0].logits = Logits::sharded;
  for (DataConfig* data : {&other.data, &other.further_data[0]}) data->loader.prefetch = 0;
  CHECK(message_of([&] { (void)run(other, resuming(folder, 2, 3)); }) == "no error");
}

TEST_CASE("a list of one data set and one head is the plain object: the same names, key and samples") {
  Experiment plain = test::small_experiment(11, 24, 6, DType::f64);
  Experiment named = plain;
  named.data.name = "faces";
  const test::Outcome a = test::train(plain, mlp(), {}, 2);
  const test::Outcome b = test::train(named, mlp(), {}, 2);
  CHECK(a.state == b.state);
  CHECK(a.state.contains("head.weight"));
}

TEST_CASE("each data set goes through its own images once in each epoch, in an order of its own") {
  Experiment experiment = two_sets();
  experiment.data.synthetic_identities.identities = 4;  // both have 24 images
  const auto data = open_datasets(experiment);
  const TrainingBatches batches(*data, experiment.shares(), 24, {1});
  CHECK(batches.samples_of(0) == 16);
  CHECK(batches.samples_of(1) == 8);
  std::vector<std::vector<std::int64_t>> drawn(2);
  for (std::int64_t step = 0; step < 3; ++step) {
    const std::vector<std::int64_t> indices = batches.indices(step);
    for (std::int64_t position = 0; position < 24; ++position) {
      const TrainingSample sample = batches.sample(step, position);
      CHECK(sample.set == (position % 3 < 2 ? 0U : 1U));
      CHECK(sample.index == indices[static_cast<std::size_t>(position)]);
      CHECK(sample.position == position);
      drawn[sample.set].push_back(sample.index);
    }
    const std::vector<std::int64_t> labels = batches.labels(indices, {0, 24});
    for (std::int64_t position = 0; position < 24; ++position) {
      const TrainingSample sample = batches.sample(step, position);
      CHECK(labels[static_cast<std::size_t>(position)] == data->set(sample.set).label(Split::train, sample.index));
    }
  }
  std::vector<std::int64_t> first_epoch(drawn[0].begin(), drawn[0].begin() + 24);
  CHECK(first_epoch != drawn[1]);
  std::sort(first_epoch.begin(), first_epoch.end());
  std::sort(drawn[1].begin(), drawn[1].end());
  for (std::int64_t i = 0; i < 24; ++i) {
    CHECK(first_epoch[static_cast<std::size_t>(i)] == i);
    CHECK(drawn[1][static_cast<std::size_t>(i)] == i);
  }
  // Their people are others: the first images differ.
  std::vector<float> a(static_cast<std::size_t>(data->image().size()));
  std::vector<float> b = a;
  data->set(0).read(Split::train, 0, a);
  data->set(1).read(Split::train, 0, b);
  CHECK(a != b);
}

}  // namespace heddle::test::several_sets_test

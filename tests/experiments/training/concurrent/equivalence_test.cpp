// The serial run is the reference (docs/conventions.md, convention 2): layouts give its losses, gradients and weights.
#include <array>
#include <cstdlib>
#include <numeric>

#include <doctest/doctest.h>

#include "layers/modules/linear.h"
#include "layers/modules/normalization.h"
#include "tests/support/compare/close_to.h"
#include "tests/support/random_model.h"

namespace heddle::test::equivalence_test {

namespace {

using test::Layout;

test::ModelPointer model_of(std::uint64_t seed, bool with_norms, const Mesh& mesh) {
  RandomStream draws({seed}, Purpose::test, 0, 0);
  return test::random_model(draws, {.with_norms = with_norms}, mesh);
}

/// A mesh of 1 to 8 ranks along dp and tp.
Mesh random_mesh(RandomStream& draws) {
  const auto dp = 1 + static_cast<int>(draws.below(4));
  const auto tp = 1 + static_cast<int>(draws.below(static_cast<std::uint64_t>(8 / dp)));
  return Mesh(dp, 1, tp);
}

/// The type of the computation.
struct Types {
  DType (*draw)(RandomStream&);
  /// The smallest sample group that tests anything: a norm over two values of a channel always gives -1 and 1, and its
  /// gradient is only rounding error.
  std::int64_t min_normalised;
};
constexpr Types wide{[](RandomStream& draws) { return draws.below(2) == 0 ? DType::f64 : DType::f32; }, 4};
constexpr Types narrow{[](RandomStream& draws) { return draws.below(4) == 0 ? DType::f16 : DType::bf16; }, 16};

/// Makes a second data set, with a head of another kind, train the same backbone. The batch grows to a multiple of
/// `multiple` in which both sets have their share.
void add_data_set(RandomStream& draws, Experiment& experiment, std::int64_t multiple) {
  experiment.data.name = "first";
  DataConfig& data = experiment.further_data.emplace_back(experiment.data);
  data.name = "second";
  data.synthetic_identities.identities = 3;
  data.augmentation = {.flip = 0.5};
  experiment.data.share = 1 + static_cast<std::int64_t>(draws.below(3));
  data.share = 1 + static_cast<std::int64_t>(draws.below(2));
  multiple = std::lcm(multiple, experiment.shares().period());
  experiment.train.batch += (multiple - experiment.train.batch % multiple) % multiple;
  HeadConfig head;
  head.classes = 3 + static_cast<std::int64_t>(draws.below(20));
  head.margin = {.scale = 8, .combined = {.m3 = 0.1}};
  head.loss_weight = 0.5 + draws.uniform();
  head.logits = std::array{Logits::gathered, Logits::transposed, Logits::sharded, Logits::fused}[draws.below(4)];
  if (draws.below(4) == 0) head.sub_centres = 2;
  experiment.further_heads.push_back(head);
}

void check_random_case(std::uint64_t seed, const Types& types) {
  RandomStream draws({seed}, Purpose::test, 1, 0);
  Layout layout{random_mesh(draws), 1 + static_cast<std::int64_t>(draws.below(3)),
                draws.below(2) == 0 ? Logits::gathered : Logits::sharded};
  test::RandomModelOptions options{.with_norms = draws.below(2) == 0};
  options.synchronized = options.with_norms && draws.below(3) == 0;
  const bool adamw = draws.below(3) == 0;
  options.with_depthwise = !(adamw && options.with_norms);
  const test::ModelPointer model = test::random_model(draws, options, layout.mesh);
  // Groups of unequal size; without norms also empty ones.
  const std::int64_t groups = layout.mesh.size(Axis::dp) * layout.micro_batches;
  const std::int64_t least = options.with_norms ? types.min_normalised * groups : 1;
  std::int64_t batch = least + static_cast<std::int64_t>(draws.below(9));
  // The groups of a synchronised norm are the micro-batches; uneven ones differ from those of the reference.
  if (options.synchronized) batch -= batch % groups;
  const DType dtype = types.draw(draws);
  Experiment experiment =
      test::small_experiment(static_cast<std::int64_t>(2 + draws.below(40)), batch, options.embedding, dtype);
  experiment.seed = static_cast<std::int64_t>(seed);
  if (adamw) {
    experiment.train.optimizer.type = OptimizerType::adamw;
    experiment.train.optimizer.learning_rate = 1e-3;
  }
  if (draws.below(2) == 0) experiment.train.clip.norm = 0.5;
  if (draws.below(3) == 0) experiment.train.clip.value = 0.05;
  if (draws.below(3) == 0) experiment.train.shard = ShardedState::optimizer;
  experiment.train.bucket_bytes = std::int64_t{1} << draws.below(14);
  experiment.data.augmentation.shift = 1;
  if (size_of(dtype) == 2 && !adamw && draws.below(2) == 0) experiment.train.optimizer.weights = dtype;
  layout.over = test::random_axes(draws);
  if (draws.below(3) == 0)
    layout.split = test::random_split(draws, experiment.head.classes, layout.mesh.size(layout.over));
  if (draws.below(4) == 0) add_data_set(draws, experiment, options.synchronized ? groups : 1);
  CAPTURE(seed);
  CAPTURE(to_string(layout.over));
  CAPTURE(layout.split);
  CAPTURE(experiment.heads());
  test::check_against_reference(experiment, model, layout, options.synchronized);
}

/// A number from the environment.
std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

}  // namespace

TEST_CASE("random models over random layouts equal their serial reference") {
  const std::uint64_t first = setting("HEDDLE_TEST_SEED", 0);
  const std::uint64_t cases = setting("HEDDLE_TEST_LAYOUTS", 300);
  MESSAGE("layouts of the seeds " << first << " to " << first + cases - 1);
  for (std::uint64_t seed = first; seed < first + cases; ++seed) check_random_case(seed, wide);
}

TEST_CASE("random models over random layouts equal their serial reference in bf16 and f16, mixed and pure") {
  constexpr std::uint64_t first = 1000;
  const std::uint64_t cases = setting("HEDDLE_TEST_LAYOUTS", 300) / 5;
  for (std::uint64_t seed = first; seed < first + cases; ++seed) check_random_case(seed, narrow);
}

TEST_CASE("plan counts what random layouts hold and send, rank by rank, to the byte") {
  const std::uint64_t cases = test::fewer_if_sanitized(30, 10);
  for (std::uint64_t seed = 0; seed < cases; ++seed) {
    RandomStream draws({seed}, Purpose::test, 2, 0);
    Layout layout{random_mesh(draws), 1 + static_cast<std::int64_t>(draws.below(2)), Logits::sharded};
    const test::ModelPointer model = test::random_model(draws, {.with_norms = draws.below(2) == 0}, layout.mesh);
    Experiment experiment = test::small_experiment(20, 4 * layout.mesh.size() + 1, 6, DType::f32);
    if (draws.below(2) == 0) experiment.train.shard = ShardedState::optimizer;
    layout.over = test::random_axes(draws);
    if (draws.below(2) == 0)
      layout.split = test::random_split(draws, experiment.head.classes, layout.mesh.size(layout.over));
    if (draws.below(3) == 0) add_data_set(draws, experiment, 1);
    CAPTURE(seed);
    CAPTURE(to_string(layout.mesh));
    CAPTURE(to_string(layout.over));
    CHECK(test::use_of_step(experiment, model, layout, "plan") == test::use_of_step(experiment, model, layout));
  }
}

TEST_CASE("a network with batch norm over 1, 2 and 4 ranks, gathered and sharded, equals its reference") {
  for (const DType dtype : {DType::f64, DType::f32})
    for (const int ranks : {1, 2, 4})
      for (const Logits logits : {Logits::gathered, Logits::sharded}) {
        const Experiment experiment = test::small_experiment(33, 16, 6, dtype);
        test::check_against_reference(experiment, model_of(5, true, Mesh()), {Mesh(ranks), 2, logits});
      }
}

TEST_CASE("the same run twice gives the same bits") {
  const Experiment experiment = test::small_experiment(33, 16, 6, DType::f32);
  const Layout layout{Mesh(3), 2, Logits::sharded};
  const test::Outcome first = test::train(experiment, model_of(7, true, Mesh()), layout, 3);
  const test::Outcome second = test::train(experiment, model_of(7, true, Mesh()), layout, 3);
  CHECK(first.losses == second.losses);
  CHECK(first.weights == second.weights);
}

TEST_CASE("running statistics are those of the whole batch, however it is split") {
  const Experiment experiment = test::small_experiment(10, 12, 4, DType::f64);
  // The model has one norm right after the images, whose inputs do not depend on the groups of other norms.
  ModelSpec description({8, 8, 3});
  description.then("bn", BatchNorm::spec({.channels = 3}));
  description.then("flatten", Flatten::spec());
  description.then("fc", Linear::spec({.in = 192, .out = 4}));
  const auto model = std::make_shared<ModelSpec>(description);
  const test::Outcome whole = test::train(experiment, model, {Mesh(), 1, Logits::sharded}, 1);
  for (const Layout& layout : {Layout{Mesh(), 5}, Layout{Mesh(3), 1}, Layout{Mesh(4), 3}, Layout{Mesh(2, 1, 2), 2}}) {
    const test::Outcome cut = test::train(experiment, model, layout, 1);
    for (const char* name : {"bn.running_mean", "bn.running_var"})
      for (std::size_t i = 0; i < 3; ++i)
        CHECK(cut.weights.at(name)[i] == close_to(whole.weights.at(name)[i]).epsilon(1e-12));
  }
}

}  // namespace heddle::test::equivalence_test

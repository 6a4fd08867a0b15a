// Tokens that are cut over the ranks: the losses, gradients and weights are those of the serial run.
#include <array>
#include <memory>

#include <doctest/doctest.h>

#include "layers/modules/activation.h"
#include "layers/modules/convolution.h"
#include "layers/modules/linear.h"
#include "layers/modules/normalization.h"
#include "layers/modules/tokens.h"
#include "tests/support/layouts.h"

namespace heddle::test::sequence_test {

namespace {

/// A transformer block over 16 tokens, with everything that draws at random.
ModelSpec block() {
  ModelSpec model({8, 8, 3});
  model.then("patches", Convolution::spec({.in = 3, .out = 12, .stride = 2}));
  model.then("tokens", ImageTokens::spec());
  model.then("positions", PositionEmbedding::spec(16, 12));
  const int start = model.last_value();
  model.then("norm1", LayerNorm::spec(12));
  model.then("qkv", Linear::spec({.in = 12, .out = 36, .bias = false, .heads = 6}));
  model.then("attention", Attention::spec({.heads = 6}));
  model.then("proj", Linear::spec({.in = 12, .out = 12}));
  model.then("dropout", Dropout::spec(0.2));
  model.then("drop_path", DropPath::spec(0.3));
  model.apply("sum", Add::spec(), {start, model.last_value()});
  model.then("norm2", LayerNorm::spec(12));
  model.then("fc1", Linear::spec({.in = 12, .out = 20}));
  model.then("gelu", Activation::spec(ActivationKind::gelu));
  model.then("prelu", PRelu::spec(20));
  model.then("fc2", Linear::spec({.in = 20, .out = 12}));
  model.then("flatten", Flatten::spec());
  model.then("embedding", Linear::spec({.in = 16 * 12, .out = 6}));
  return model;
}

constexpr std::array<const char*, 8> of_tokens{"positions", "norm1", "dropout", "drop_path",
                                               "sum",       "norm2", "gelu",    "prelu"};

/// Megatron's: linear layers are cut by channels, everything between them by tokens.
test::ModelPointer with_tensor_parallel(Axis axis) {
  ModelSpec model = block();
  for (const char* const layer : of_tokens) model.place(layer, {Parallel::sequence, axis});
  for (const char* const layer : {"gelu", "prelu"}) model.place(layer, {Parallel::group, axis});
  for (const char* const layer : {"qkv", "fc1"}) model.place(layer, {Parallel::column, axis});
  for (const char* const layer : {"proj", "fc2"}) model.place(layer, {Parallel::row, axis});
  return std::make_shared<ModelSpec>(std::move(model));
}

/// Ulysses': linear layers are cut by tokens, too, and attention by heads.
test::ModelPointer with_all_to_all(Axis axis) {
  ModelSpec model = block();
  for (const char* const layer : of_tokens) model.place(layer, {Parallel::sequence, axis});
  for (const char* const layer : {"qkv", "proj", "fc1", "fc2"}) model.place(layer, {Parallel::sequence, axis});
  model.place("attention", {Parallel::group, axis});
  return std::make_shared<ModelSpec>(std::move(model));
}

}  // namespace

TEST_CASE("tokens that are cut evenly or unevenly over ranks give the serial run") {
  for (const DType dtype : {DType::f64, DType::f32}) {
    const Experiment experiment = test::small_experiment(20, 11, 6, dtype);
    for (const Mesh& mesh : {Mesh(1, 1, 2), Mesh(1, 1, 3), Mesh(2, 1, 2)})
      for (const test::ModelPointer& model : {with_tensor_parallel(Axis::tp), with_all_to_all(Axis::tp)})
        test::check_against_reference(experiment, model, {mesh, 2, Logits::sharded}, false);
    test::check_against_reference(experiment, with_all_to_all(Axis::dp), {Mesh(3, 1, 2), 1, Logits::sharded}, false);
  }
}

TEST_CASE("tokens that are cut along both axes, where some ranks have none, give the serial run") {
  // The 2 ranks along dp have 2 of the 4 tokens each; the third of the 3 ranks along tp has none of these.
  ModelSpec model({8, 8, 3});
  model.then("patches", Convolution::spec({.in = 3, .out = 12, .stride = 4}));
  model.then("tokens", ImageTokens::spec());
  model.then("positions", PositionEmbedding::spec(4, 12));
  model.then("norm", LayerNorm::spec(12));
  model.then("fc1", Linear::spec({.in = 12, .out = 20}));
  model.then("dropout", Dropout::spec(0.2));
  model.then("gelu", Activation::spec(ActivationKind::gelu));
  model.then("flatten", Flatten::spec());
  model.then("embedding", Linear::spec({.in = 4 * 20, .out = 6}));
  for (const char* const layer : {"positions", "norm", "fc1", "dropout", "gelu"})
    model.place(layer, {Parallel::sequence, Axis::tp, Parallel::sequence});
  const Experiment experiment = test::small_experiment(20, 11, 6, DType::f64);
  const auto shared = std::make_shared<ModelSpec>(std::move(model));
  test::check_against_reference(experiment, shared, {Mesh(2, 1, 3), 2, Logits::sharded}, false);
}

TEST_CASE("tokens that are cut over ranks give the serial run with stages, recomputation, ZeRO-1 and 16 bits") {
  Experiment experiment = test::small_experiment(20, 11, 6, DType::f32);
  const test::ModelPointer model = with_tensor_parallel(Axis::tp);
  test::Layout stages{Mesh(1, 2, 2), 3, Logits::sharded, test::pipeline_by("1f1b")};
  test::check_against_reference(experiment, model, stages, false);
  stages.pipeline.recompute = Recompute::always;
  test::check_against_reference(experiment, model, stages, false);
  experiment.train.shard = ShardedState::optimizer;
  test::check_against_reference(experiment, model, {Mesh(2, 1, 2), 2, Logits::sharded}, false);
  test::check_against_reference(experiment, with_all_to_all(Axis::tp), {Mesh(2, 1, 2), 2, Logits::sharded}, false);
  const Experiment narrow = test::small_experiment(20, 32, 6, DType::bf16);
  test::check_against_reference(narrow, model, {Mesh(1, 1, 2), 2, Logits::sharded}, false);
}

TEST_CASE("plan counts what ranks with some of the tokens hold and send, to the byte") {
  const Experiment experiment = test::small_experiment(20, 11, 6, DType::f32);
  for (const Mesh& mesh : {Mesh(1, 1, 3), Mesh(2, 1, 2)})
    for (const test::ModelPointer& model : {with_tensor_parallel(Axis::tp), with_all_to_all(Axis::tp)})
      CHECK(test::use_of_step(experiment, model, {mesh, 2, Logits::sharded}, "plan") ==
            test::use_of_step(experiment, model, {mesh, 2, Logits::sharded}));
}

}  // namespace heddle::test::sequence_test

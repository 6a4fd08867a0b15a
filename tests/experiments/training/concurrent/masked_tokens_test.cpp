// Vision transformers that mask tokens in training: every layout masks those that the serial run masks (conventions 2
// and 4).
#include <algorithm>

#include <doctest/doctest.h>

#include "models/models.h"
#include "tests/support/layouts.h"

namespace heddle::test::masked_tokens_test {

namespace {

/// 16 tokens, of which each sample keeps 11.
ModelSpec masked_vit(double mask_ratio = 0.3, bool class_token = false) {
  return make_model({.type = ModelType::vit,
                     .embedding = 6,
                     .vit = {.features = 8,
                             .blocks = 2,
                             .heads = 2,
                             .patch = 2,
                             .drop_path = 0.2,
                             .mask_ratio = mask_ratio,
                             .class_token = class_token}},
                    {3, 8, 8});
}

ModelPointer shared(ModelSpec model) {
  return std::make_shared<ModelSpec>(std::move(model));
}

/// Megatron's placements, or all layers by samples.
ModelPointer placed(bool megatron) {
  ModelSpec model = masked_vit();
  const auto place = [&](const char* layers, Parallel kind) { model.place(layers, {.kind = kind, .over = Axis::tp}); };
  if (!megatron) {
    place("*", Parallel::data);
    return shared(std::move(model));
  }
  for (const char* const layers : {"*.attn.qkv", "*.mlp.fc1"}) place(layers, Parallel::column);
  for (const char* const layers : {"*.attn.proj", "*.mlp.fc2"}) place(layers, Parallel::row);
  for (const char* const layers : {"mask", "mask_token", "pos_embed"}) place(layers, Parallel::replicate);
  return shared(std::move(model));
}

Layout stages(const char* schedule, int ranks, std::int64_t micro_batches) {
  Layout layout{Mesh(1, ranks, 1), micro_batches};
  layout.over = last_stage;
  layout.pipeline.schedule = schedule;
  return layout;
}

}  // namespace

TEST_CASE("over data-parallel and tensor-parallel ranks and micro-batches, masked tokens are those of the serial run") {
  for (const DType dtype : {DType::f64, DType::f32})
    for (const bool megatron : {false, true}) {
      if (is_sanitized && megatron != (dtype == DType::f64)) continue;
      const Experiment experiment = small_experiment(20, 32, 6, dtype);
      check_against_reference(experiment, placed(megatron), {Mesh(2, 1, 2), 2});
      check_against_reference(experiment, placed(megatron), {Mesh(3), 1});
    }
}

TEST_CASE("pipeline stages and recomputation change no bit of a training with masked tokens") {
  const Experiment experiment = small_experiment(20, 32, 6, DType::f32);
  const ModelPointer model = shared(masked_vit());
  for (const char* const schedule : {"gpipe", "1f1b", "zb_h1"})
    check_same_bits(experiment, model, stages(schedule, 3, 4), {Mesh(), 4});
  Layout recomputed = stages("1f1b", 2, 4);
  recomputed.pipeline.recompute_layers = {"*"};
  check_same_bits(experiment, model, recomputed, {Mesh(), 4});
}

TEST_CASE("the embedding comes from a class token that sees the unmasked tokens, in every layout") {
  ModelSpec model = masked_vit(0.3, true);
  const std::vector<std::string> names = model.parameter_names();
  CHECK(std::ranges::count(names, "cls_token") == 1);
  CHECK(std::ranges::count(names, "mask_token") == 0);
  CHECK(model.sample(model.last_value()) == Shape{6});
  const Experiment experiment = small_experiment(20, 32, 6, DType::f64);
  CHECK(train(experiment, shared(model), {Mesh(), 1}, 2).losses !=
        train(experiment, shared(masked_vit()), {Mesh(), 1}, 2).losses);
  check_same_bits(small_experiment(20, 32, 6, DType::f32), shared(model), stages("zb_h1", 3, 4), {Mesh(), 4});
  model.place("*", {.kind = Parallel::data, .over = Axis::tp});
  check_against_reference(experiment, shared(std::move(model)), {Mesh(2, 1, 2), 2});
}

TEST_CASE("plan counts what a training with masked tokens holds and sends, and these are less than without a mask") {
  const Experiment experiment = small_experiment(20, 16, 6, DType::f32);
  for (const Layout& layout : {Layout{Mesh(), 1}, Layout{Mesh(2, 1, 2), 2}, stages("1f1b", 2, 2)})
    CHECK(use_of_step(experiment, placed(true), layout, "plan") == use_of_step(experiment, placed(true), layout));
  const Use masked = use_of_step(experiment, shared(masked_vit(0.5)), stages("1f1b", 2, 2))[0];
  const Use whole = use_of_step(experiment, shared(masked_vit(0)), stages("1f1b", 2, 2))[0];
  CHECK(masked.sent < whole.sent);
}

TEST_CASE("a mask draws the same tokens again, and another ratio trains otherwise; the mask token is trained") {
  const Experiment experiment = small_experiment(20, 16, 6, DType::f64);
  const Outcome masked = train(experiment, shared(masked_vit()), {Mesh(), 1}, 2);
  const Outcome again = train(experiment, shared(masked_vit()), {Mesh(), 1}, 2);
  CHECK(masked.losses == again.losses);
  CHECK(masked.losses != train(experiment, shared(masked_vit(0.5)), {Mesh(), 1}, 2).losses);
  // The token is trained: its gradient is not 0.
  double largest = 0;
  for (const double x : masked.gradients.at("mask_token")) largest = std::max(largest, std::abs(x));
  CHECK(largest > 1e-6);
}

}  // namespace heddle::test::masked_tokens_test

// The learning rate's decay from block to block, and which parameters decay: on a small vision transformer.
#include <cmath>

#include <doctest/doctest.h>

#include "experiments/training/experiment_checks.h"
#include "models/models.h"
#include "tests/support/layouts.h"
#include "tests/support/message.h"
#include "tests/support/mlp_experiment.h"

namespace heddle::test::layer_decay_test {

namespace {

constexpr int blocks = 3;

ModelConfig vit_config() {
  return {.type = ModelType::vit,
          .embedding = 6,
          .vit = {.features = 8, .blocks = blocks, .heads = 2, .patch = 4, .qkv_bias = true, .drop_path = 0}};
}

ModelPointer vit() {
  return std::make_shared<ModelSpec>(make_model(vit_config(), {.channels = 3, .height = 8, .width = 8}));
}

Experiment experiment_of(OptimizerType optimizer) {
  Experiment experiment = small_experiment(11, 24, 6, DType::f64);
  experiment.train.optimizer.type = optimizer;
  return experiment;
}

/// The exponent by BEiT's rule: 0 behind the blocks, 1 in the last block, one more than the blocks before the first.
int exponent_of(const std::string& parameter) {
  if (parameter.starts_with("patch_embed.") || parameter.starts_with("pos_embed")) return blocks + 1;
  if (parameter.starts_with("blocks.")) return blocks - (parameter[7] - '0');
  return 0;
}

struct VitLayout {
  Layout layout{};
  ShardedState shard = ShardedState::none;
};

std::vector<VitLayout> layouts() {
  return {{{Mesh(), 4}},
          {{Mesh(2), 2}, ShardedState::optimizer},
          {{Mesh(1, 1, 2), 4}},
          {{Mesh(1, 2), 4, Logits::sharded, test::pipeline_by("interleaved", 2)}},
          {{Mesh(2, 2), 2}, ShardedState::optimizer},
          {{Mesh(1, 2), 4, Logits::sharded, test::pipeline_by("chimera"), last_stage}}};
}

}  // namespace

TEST_CASE("layer_decay multiplies the rate of each block by decay^(blocks - block), alike on every layout") {
  constexpr double decay = 0.6;
  for (const VitLayout& way : layouts()) {
    CAPTURE(to_string(way.layout.mesh));
    // AdamW would divide gradients that are 0 but for rounding by their own size.
    Experiment experiment = experiment_of(OptimizerType::sgd);
    experiment.train.shard = way.shard;
    experiment.train.optimizer.layer_decay = decay;
    check_against_reference(experiment, vit(), way.layout);
    experiment.train.optimizer.type = OptimizerType::adamw;
    experiment.train.lr_factors = {{"blocks.1.*", 0.5}, {"head.weight", 3}};
    const Outcome begun = train(experiment, vit(), way.layout, Course{});
    const Outcome with = train(experiment, vit(), way.layout, 1);
    experiment.train.optimizer.layer_decay = 1;
    experiment.train.lr_factors.clear();
    const Outcome without = train(experiment, vit(), way.layout, 1);
    std::vector<std::string> names = vit()->parameter_names();
    names.emplace_back("head.weight");
    CHECK(names.size() == 3 + blocks * 12 + 2 + 6 + 1);
    for (const std::string& name : names) {
      CAPTURE(name);
      double factor = std::pow(decay, exponent_of(name));
      if (name.starts_with("blocks.1.")) factor *= 0.5;  // both apply
      if (name == "head.weight") factor = 3;
      double error = 0;
      double step = 0;
      for (std::size_t i = 0; i < begun.weights.at(name).size(); ++i) {
        const double start = begun.weights.at(name)[i];
        step = std::max(step, std::abs(without.weights.at(name)[i] - start));
        error = std::max(error,
                         std::abs(with.weights.at(name)[i] - start - factor * (without.weights.at(name)[i] - start)));
      }
      CHECK(step > 0);
      CHECK(error <= 1e-12);
    }
  }
}

TEST_CASE("without decay_norms_and_biases, biases, norms and position embeddings of a transformer do not decay") {
  Experiment experiment = experiment_of(OptimizerType::adamw);
  experiment.train.optimizer.decay_norms_and_biases = false;
  const Layout serial{Mesh(), 1};
  // Both trainings have the same gradients in their first step, whose weights the decay then changes.
  experiment.train.optimizer.weight_decay = 0;
  const Outcome none = train(experiment, vit(), serial, 1);
  experiment.train.optimizer.weight_decay = 0.5;
  const Outcome some = train(experiment, vit(), serial, 1);
  experiment.train.optimizer.decay_norms_and_biases = true;
  const Outcome all = train(experiment, vit(), serial, 1);
  for (const std::string& name : vit()->parameter_names()) {
    CAPTURE(name);
    const bool is_exempt = name.ends_with(".bias") || name.find("norm") != std::string::npos || name == "pos_embed" ||
                           name.starts_with("feature.1.") || name.starts_with("feature.3.");
    CHECK((some.weights.at(name) == none.weights.at(name)) == is_exempt);
    const bool begins_at_zero = name.ends_with(".bias");
    CHECK((all.weights.at(name) == none.weights.at(name)) == begins_at_zero);
  }
}

TEST_CASE("models have depths by their residual blocks, and a model without blocks has no layer_decay") {
  const ImageShape image{.channels = 3, .height = 32, .width = 32};
  const auto depths = [&](ModelType type) {
    const ModelSpec model = make_model({.type = type, .embedding = 8}, image);
    std::map<std::string, int> found;
    for (const ModelSpec::Application& application : model.applications())
      found[application.name] = model.depth_from_end(application);
    return found;
  };
  std::map<std::string, int> depth = depths(ModelType::resnet18);
  CHECK(depth.at("conv1") == 9);
  CHECK(depth.at("layer1.0.conv1") == 8);
  CHECK(depth.at("layer1.1.conv2") == 7);
  CHECK(depth.at("layer2.0.downsample.0") == 6);
  CHECK(depth.at("layer4.1.bn2") == 1);
  CHECK(depth.at("fc") == 0);
  depth = depths(ModelType::iresnet50);
  CHECK(depth.at("bn1") == 25);
  CHECK(depth.at("layer1.0.bn1") == 24);
  CHECK(depth.at("layer4.2.bn3") == 1);
  CHECK(depth.at("bn2") == 0);
  depth = depths(ModelType::mobilefacenet);
  CHECK(depth.at("layers.0.layers.0") == 16);
  CHECK(depth.at("layers.1.layers.0") == 16);
  CHECK(depth.at("layers.2.layers.0.layers.0") == 15);
  CHECK(depth.at("layers.7.layers.1.layers.2.layers.0") == 1);
  CHECK(depth.at("conv_sep.layers.0") == 0);
  depth = depths(ModelType::vit_b_16);
  CHECK(depth.at("class_token") == 13);
  CHECK(depth.at("encoder.pos_embedding") == 13);
  CHECK(depth.at("encoder.layers.encoder_layer_0.ln_1") == 12);
  CHECK(depth.at("encoder.layers.encoder_layer_11.mlp.3") == 1);
  CHECK(depth.at("encoder.ln") == 0);
  CHECK(depth.at("heads.head") == 0);

  Experiment experiment = mlp_experiment({}, 3);
  experiment.train.optimizer.layer_decay = 0.75;
  CHECK(message_of<InputError>([&] { check(experiment); }) ==
        "train.optimizer.layer_decay: expected 1, got 0.75: the model has no blocks, by which depth is counted "
        "(vision transformers, ResNets, ResNeXts, iResNets and MobileFaceNets have blocks)");
  experiment.model = vit_config();
  CHECK(message_of<InputError>([&] { check(experiment); }) == "no error");
}

}  // namespace heddle::test::layer_decay_test

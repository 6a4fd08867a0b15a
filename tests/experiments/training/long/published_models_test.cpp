// The published models are too large for the sanitizers: their shards against the whole.
#include <doctest/doctest.h>

#include "models/models.h"
#include "tests/support/layouts.h"

namespace heddle::test {

TEST_CASE("a shard of every new model trains as the whole does") {
  std::vector<ModelConfig> configs{
      {.type = ModelType::resnext,
       .stem = Stem::small,
       .resnext = {.blocks = {1, 1, 1, 1}, .cardinality = 4, .width = 2}},
      {.type = ModelType::vgg11, .dropout = 0.2, .vgg = {.norms = true, .hidden = {12}}},
      {.type = ModelType::mobilefacenet, .mobilefacenet = {.blocks = {1, 1, 1, 1}, .scale = 1}}};
  const std::vector<PlacementConfig> placements{{"layer*.conv2", Parallel::group, Axis::tp},
                                                {"classifier.0", Parallel::column, Axis::tp},
                                                {"layers.*.layers.1.layers.0", Parallel::group, Axis::tp}};
  for (std::size_t i = 0; i < configs.size(); ++i) {
    configs[i].embedding = 6;
    configs[i].placements = {placements[i]};
    // 32 pixels are halved five times by VGG.
    Experiment experiment = test::small_experiment(10, 8, 6, DType::f64);
    experiment.data.synthetic_identities.image = {3, 32, 32};
    const auto model = std::make_shared<ModelSpec>(make_model(configs[i], image_shape(experiment.data)));
    test::check_against_reference(experiment, model, {.mesh = Mesh(1, 1, 2)});
  }
}

}  // namespace heddle::test

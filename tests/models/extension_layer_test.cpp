// A layer type of an extension in a model that is written out layer by layer.
#include <any>

#include <doctest/doctest.h>

#include "framework/description/describe.h"
#include "layers/model_spec.h"
#include "layers/modules/activation.h"
#include "models/layer_list.h"
#include "tests/support/message.h"

namespace heddle::test {

namespace own {

struct OwnConfig {
  double probability = 0.25;
};
void describe(Describer& d, OwnConfig& config) {
  d.field("probability", config.probability, between(0, 1), "of zeros");
}
LayerSpecPointer make_own(const OwnConfig& config, const Shape& input) {
  if (input.rank() != 3) fail<InputError>("own_dropout: expected images");
  return Dropout::spec(config.probability);
}
}  // namespace own

namespace {

using own::OwnConfig;

const ExtensionLayer own_dropout = extension_layer<OwnConfig>("own_dropout", "", own::make_own);

LayerConfig own_layer(double probability) {
  LayerConfig layer;
  layer.extension = {&own_dropout, OwnConfig{probability}};
  return layer;
}

}  // namespace

TEST_CASE("a layer of an extension is made from its config, and named by its type and its place") {
  const ModelSpec model = make_layers({own_layer(0.5), {.type = LayerType::flatten}}, {3, 4, 4});
  REQUIRE(model.applications().size() == 2);
  CHECK(model.applications()[0].name == "own_dropout_0");
  CHECK(model.applications()[0].layer->type() == "dropout");
  CHECK(message_of<InputError>([] {
          (void)make_layers({{.type = LayerType::flatten}, own_layer(0.5)}, {3, 4, 4});
        }) == "model: own_dropout_1: own_dropout: expected images");
}

TEST_CASE("an extension's layer type needs a new name") {
  CHECK(message_of<InputError>([] { add_layers({extension_layer<OwnConfig>("linear", "", own::make_own)}); }) ==
        "there is a layer type \"linear\" already");
}

}  // namespace heddle::test

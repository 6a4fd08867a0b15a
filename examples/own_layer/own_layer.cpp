// The layer `swish`: x * sigmoid(beta * x) (Ramachandran et al. 2017, "Searching for activation functions").
#include <memory>

#include "experiments/extensions/extension.h"
#include "framework/description/describe.h"
#include "framework/ops/elementwise.h"

using namespace heddle;

struct SwishConfig {
  double beta = 1;
};
static void describe(Describer& d, SwishConfig& config) {
  d.field("beta", config.beta, above(0), "the steepness of the gate");
}

struct Swish final : Layer {
  explicit Swish(double beta) : beta_(beta) {}
  Variable forward(std::span<const Variable> inputs, const Pass& /*pass*/) override {
    return multiply(inputs[0], sigmoid(scale(inputs[0], beta_)));  // the operations have their derivatives
  }
  double beta_;
};

static LayerSpecPointer swish(const SwishConfig& config, const Shape& /*input*/) {
  return channelwise_spec(
      {.type = "swish",
       .build = [config](Construction&, const std::string&,
                         const LayerLayout&) { return std::make_unique<Swish>(config.beta); },
       .write = [config](InferenceGraph& graph, const std::string& name, const InferenceInputs& in) -> InferenceValue {
         const std::string beta = graph.constant(name + ".beta", static_cast<float>(config.beta));
         const std::string scaled = graph.node(name + ".scaled", "Mul", {in.name(), beta});
         const std::string gate = graph.node(name + ".gate", "Sigmoid", {scaled});
         return {graph.node(name, "Mul", {in.name(), gate}), in.values[0].image};
       }});
}

extern "C" void heddle_extend(Extension& own) {
  own.layers.push_back(extension_layer<SwishConfig>("swish", "x * sigmoid(beta * x)", swish));
}

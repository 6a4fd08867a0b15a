// What linear layers and convolutions have in common: a weight and a bias, which can be split by output channels, split
// by input channels, or kept in shards that are gathered before use.
#pragma once

#include <optional>

#include "layers/layer_spec.h"

namespace heddle {

struct WeightedLayer {
  Parallel kind = Parallel::data;
  AxisUse use{};
  int channel_dimension = 1;    // of input and output
  int weight_in_dimension = 1;  // the weight's dimension of inputs; its dimension 0 is the outputs
  std::int64_t in = 0;
  std::int64_t out = 0;
  bool bias = false;
};
/// The options `column` and `row`, and those that every layer with parameters has.
std::variant<LayerOption, Refusal> weighted_option(const WeightedLayer& layer);

/// A layer's weight and bias on one rank.
class Weights {
 public:
  Weights(Parameter weight, std::optional<Parameter> bias, const LayerLayout& layout);

  /// Calls compute(weight, bias) with gathered weights in the type of the layer's input. The bias may be undefined; if
  /// the result is a partial sum, only one rank adds it.
  Variable apply(DType type, const Pass& pass,
                 const std::function<Variable(const Variable&, const Variable&)>& compute) const;
  std::vector<Parameter*> parameters();

 private:
  Parameter weight_;
  std::optional<Parameter> bias_;
  AxisSet rows_;  // axes along which results are partial sums
};

}  // namespace heddle

// Activations, dropout, and the sum of two branches.
#pragma once

#include "layers/layer_draws.h"
#include "layers/layer_spec.h"

namespace heddle {

enum class ActivationKind { relu, relu6, sigmoid, tanh, gelu };

class Activation final : public Layer {
 public:
  static LayerSpecPointer spec(ActivationKind kind);
  explicit Activation(ActivationKind kind) : kind_(kind) {}
  Variable forward(std::span<const Variable> inputs, const Pass& pass) override;

 private:
  ActivationKind kind_;
};

/// max(x, 0) + slope * min(x, 0) with one slope per channel (He et al. 2015).
class PRelu final : public Layer {
 public:
  static LayerSpecPointer spec(std::int64_t channels);
  /// Appends it to a graph.
  static InferenceValue write(InferenceGraph& graph, const std::string& name, const InferenceInputs& inputs);
  PRelu(Construction& construction, const std::string& name, std::int64_t channels, const LayerLayout& layout);
  Variable forward(std::span<const Variable> inputs, const Pass& pass) override;
  std::vector<Parameter*> parameters() override { return {&slope_}; }

 private:
  Parameter slope_;
};

/// The masks depend only on the seed, the step, the layer and the element's place in the global batch.
class Dropout final : public Layer {
 public:
  static LayerSpecPointer spec(double probability);
  Dropout(Construction& construction, double probability, LayerLayout layout);
  Variable forward(std::span<const Variable> inputs, const Pass& pass) override;

 private:
  LayerDraws draws_;
  double probability_;
};

/// The sum of two inputs of the same shape, which ends a residual branch.
class Add final : public Layer {
 public:
  static LayerSpecPointer spec();
  Variable forward(std::span<const Variable> inputs, const Pass& pass) override;
};

}  // namespace heddle

// Activations, dropout, and the sum of two branches.
#pragma once

#include "layers/layer.h"

namespace heddle {

enum class ActivationKind { relu, sigmoid, tanh, gelu };

class Activation final : public Layer {
 public:
  explicit Activation(ActivationKind kind) : kind_(kind) {}
  Variable forward(std::span<const Variable> inputs, const Pass& pass) override;

 private:
  ActivationKind kind_;
};

/// max(x, 0) + slope * min(x, 0) with a slope a channel (He et al. 2015).
class PRelu final : public Layer {
 public:
  PRelu(Construction& construction, const std::string& name, std::int64_t channels);
  Variable forward(std::span<const Variable> inputs, const Pass& pass) override;
  std::vector<Parameter*> parameters() override { return {&slope_}; }

 private:
  Parameter slope_;
};

/// Masks depend on seed, step, layer and the sample's place in the global batch only.
class Dropout final : public Layer {
 public:
  Dropout(Construction& construction, double probability)
      : key_{construction.key, Purpose::dropout, 0, construction.next_stream++}, probability_(probability) {}
  Variable forward(std::span<const Variable> inputs, const Pass& pass) override;

 private:
  DrawKey key_;
  double probability_;
};

/// Sum of two inputs of one shape: the end of a residual branch.
class Add final : public Layer {
 public:
  Variable forward(std::span<const Variable> inputs, const Pass& pass) override;
};

}  // namespace heddle

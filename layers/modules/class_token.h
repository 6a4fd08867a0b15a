// The class token of vision transformers (Dosovitskiy et al. 2021): a trained token that stands before those of the
// image and gathers what attention gives it, and the layer that reads it.
#pragma once

#include "layers/layer_spec.h"

namespace heddle {

/// [n, tokens, features] -> [n, 1 + tokens, features]: puts one trained vector [1, 1, features], initially 0, before
/// the tokens of each sample.
class ClassToken final : public Layer {
 public:
  static LayerSpecPointer spec(std::int64_t features);
  ClassToken(Construction& construction, const std::string& name, std::int64_t features, const LayerLayout& layout);
  Variable forward(std::span<const Variable> inputs, const Pass& pass) override;
  std::vector<Parameter*> parameters() override { return {&token_}; }

 private:
  Parameter token_;
};

/// [n, tokens, features] -> [n, features]: the first token of each sample.
class FirstToken final : public Layer {
 public:
  static LayerSpecPointer spec();
  Variable forward(std::span<const Variable> inputs, const Pass& pass) override;
};

}  // namespace heddle

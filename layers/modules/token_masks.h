// Masking of tokens in training (He et al. 2022), as InsightFace's vision transformers do it: one layer leaves out
// tokens at random, so that the layers after it see the others only, and a second one fills the gaps. In evaluation
// both give their input.
#pragma once

#include "framework/ops/training.h"
#include "layers/layer_draws.h"
#include "layers/layer_spec.h"

namespace heddle {

/// What the two layers of a mask have in common. Which tokens a sample keeps depends only on the seed, the step, the
/// mask's number and the sample's place in the global batch, so that both layers draw the same tokens, wherever they
/// are.
struct TokenMasking {
  std::int64_t tokens = 0;   // of a sample
  double ratio = 0.1;        // share of the tokens that is masked
  std::uint32_t number = 0;  // of the mask within the model

  /// The tokens that a sample keeps, rounded down. A product that is whole but for its rounding counts as whole.
  std::int64_t kept() const { return static_cast<std::int64_t>(static_cast<double>(tokens) * (1 - ratio) + 1e-9); }
};

/// Draws the mask of a rank's samples.
class TokenMaskDraws {
 public:
  TokenMaskDraws(RandomKey key, const TokenMasking& masking, LayerLayout layout);
  TokenMask draw(const Pass& pass) const;

 private:
  LayerDraws draws_;
  TokenMasking masking_;
};

/// [n, tokens, features] -> [n, kept, features] in training.
class MaskTokens final : public Layer {
 public:
  /// InputError if the ratio leaves no token or masks none.
  static LayerSpecPointer spec(const TokenMasking& masking);
  MaskTokens(const Construction& construction, const TokenMasking& masking, const LayerLayout& layout);
  Variable forward(std::span<const Variable> inputs, const Pass& pass) override;

 private:
  TokenMaskDraws draws_;
};

/// [n, kept, features] -> [n, tokens, features] in training: the tokens return to their places, and one trained vector
/// [1, 1, features], initially normal with deviation 0.02, stands for all that were masked.
class RestoreTokens final : public Layer {
 public:
  static LayerSpecPointer spec(const TokenMasking& masking, std::int64_t features);
  RestoreTokens(Construction& construction, const std::string& name, const TokenMasking& masking, std::int64_t features,
                const LayerLayout& layout);
  Variable forward(std::span<const Variable> inputs, const Pass& pass) override;
  std::vector<Parameter*> parameters() override { return {&mask_token_}; }

 private:
  TokenMaskDraws draws_;
  Parameter mask_token_;
};

}  // namespace heddle

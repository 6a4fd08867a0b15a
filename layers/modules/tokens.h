// The layers of vision transformers (Dosovitskiy et al. 2021) that linear layers, norms and sums are not: tokens are
// [n, tokens, features].
#pragma once

#include <optional>

#include "layers/layer_draws.h"
#include "layers/layer_spec.h"

namespace heddle {

/// [n, height, width, c] -> [n, height * width, c]: one token per pixel, in row-major order. Behind a convolution whose
/// stride is its kernel it makes patches into tokens.
class ImageTokens final : public Layer {
 public:
  static LayerSpecPointer spec();
  Variable forward(std::span<const Variable> inputs, const Pass& pass) override;
};

/// Adds one trained vector per token, [1, tokens, features], initially normal with deviation 0.02.
class PositionEmbedding final : public Layer {
 public:
  static LayerSpecPointer spec(std::int64_t tokens, std::int64_t features);
  PositionEmbedding(Construction& construction, const std::string& name, std::int64_t tokens, std::int64_t features,
                    const LayerLayout& layout);
  Variable forward(std::span<const Variable> inputs, const Pass& pass) override;
  std::vector<Parameter*> parameters() override { return {&positions_}; }

 private:
  Parameter positions_;
};

struct AttentionOptions {
  std::int64_t heads = 8;
  double scale = 0;    // of the scores; 0: (features of a head)^-1/2
  double dropout = 0;  // probability with which a weight that softmax gives a token is zero in training
};

/// Softmax attention between the tokens of a sample, [n, tokens, 3 * d] -> [n, tokens, d]: a linear layer before it
/// gives queries, keys and values of all heads (LinearOptions::heads). `group` gives each rank some heads, so that
/// linear layers by `column` before it and by `row` after it are Megatron's tensor parallelism (Shoeybi et al. 2019).
/// Which weights dropout zeroes depends only on the seed, the step, the layer, the sample's place in the global batch,
/// the head and the places of the two tokens among those of the layer's input.
class Attention final : public Layer {
 public:
  static LayerSpecPointer spec(const AttentionOptions& options);
  Attention(Construction& construction, const AttentionOptions& options, LayerLayout layout);
  Variable forward(std::span<const Variable> inputs, const Pass& pass) override;

 private:
  AttentionOptions options_;
  std::int64_t size_of_head_;          // of its queries, keys and values together
  std::optional<LayerDraws> draws_{};  // with dropout
};

/// Zeroes whole samples with `probability` and scales the others by 1 / (1 - probability), before a residual sum
/// (stochastic depth: Huang et al. 2016). Which ones depends only on the seed, the step, the layer and the sample's
/// place in the global batch.
class DropPath final : public Layer {
 public:
  static LayerSpecPointer spec(double probability);
  DropPath(Construction& construction, double probability, LayerLayout layout);
  Variable forward(std::span<const Variable> inputs, const Pass& pass) override;

 private:
  LayerDraws draws_;
  double probability_;
};

}  // namespace heddle

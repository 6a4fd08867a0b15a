// Fully connected layer, and the layer that turns an image into a vector.
#pragma once

#include <optional>

#include "layers/modules/weighted.h"

namespace heddle {

struct LinearOptions {
  std::int64_t in = 0;
  std::int64_t out = 0;
  bool bias = true;
  /// Standard deviation of normal initial weights; if empty, they are PyTorch's uniform(-1/sqrt(in), 1/sqrt(in)).
  std::optional<double> deviation{};
  /// Bound of uniform initial weights in place of PyTorch's. With either of the two, biases are initially 0.
  std::optional<double> bound{};
  /// Stands between the layer's name and those of its parameters. PyTorch's MultiheadAttention has `in_proj_weight`.
  char separator = '.';
  /// The outputs are queries, keys and values of this many heads; 0: they are not. Ours have the order head, part,
  /// feature, so that ranks may share the heads; published models have the order part, head, feature.
  std::int64_t heads = 0;
};

/// [n, .., in] -> [n, .., out]: vectors, or one vector per token. weight [out, in], bias [out]. Splits by `column` and
/// by `row`.
class Linear final : public Layer {
 public:
  static LayerSpecPointer spec(const LinearOptions& options);
  Linear(Construction& construction, const std::string& name, const LinearOptions& options, const LayerLayout& layout);
  Variable forward(std::span<const Variable> inputs, const Pass& pass) override;
  std::vector<Parameter*> parameters() override { return weights_.parameters(); }

 private:
  Weights weights_;
};

/// [n, ..] -> [n, product of ..].
class Flatten final : public Layer {
 public:
  static LayerSpecPointer spec();
  Variable forward(std::span<const Variable> inputs, const Pass& pass) override;
};

}  // namespace heddle

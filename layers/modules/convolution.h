// Convolution layer over NHWC images.
#pragma once

#include <optional>

#include "framework/ops/convolution.h"
#include "layers/modules/weighted.h"

namespace heddle {

struct ConvolutionLayerOptions {
  std::int64_t in = 0;
  std::int64_t out = 0;
  std::int64_t kernel = 3;
  std::int64_t stride = 1;
  std::int64_t padding = 1;
  std::int64_t dilation = 1;
  std::int64_t groups = 1;
  bool bias = false;
  /// Standard deviation of normal initial weights; if empty, He's sqrt(2 * groups / (out * kernel^2)) (He et al. 2015,
  /// fan-out).
  std::optional<double> deviation{};
};

/// [N, H, W, in] -> [N, H', W', out]. weight [out, k, k, in / groups], bias [out]. Splits by `column` and `row` if it
/// has one group, by `group` if it has several.
class Convolution final : public Layer {
 public:
  static LayerSpecPointer spec(const ConvolutionLayerOptions& options);
  Convolution(Construction& construction, const std::string& name, const ConvolutionLayerOptions& options,
              const LayerLayout& layout);
  Variable forward(std::span<const Variable> inputs, const Pass& pass) override;
  std::vector<Parameter*> parameters() override { return weights_.parameters(); }

 private:
  ConvolutionOptions options_;
  Weights weights_;
};

}  // namespace heddle

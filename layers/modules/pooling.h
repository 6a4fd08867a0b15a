// Pooling layers over NHWC images.
#pragma once

#include "framework/ops/pooling.h"
#include "layers/layer_spec.h"

namespace heddle {

class Pool final : public Layer {
 public:
  static LayerSpecPointer spec(PoolOp op, const PoolOptions& options);
  Pool(PoolOp op, const PoolOptions& options) : op_(op), options_(options) {}
  Variable forward(std::span<const Variable> inputs, const Pass& /*pass*/) override {
    return op_ == PoolOp::max ? max_pool2d(inputs[0], options_) : average_pool2d(inputs[0], options_);
  }

 private:
  PoolOp op_;
  PoolOptions options_;
};

/// [N, H, W, C] -> [N, C].
class GlobalAveragePool final : public Layer {
 public:
  static LayerSpecPointer spec();
  Variable forward(std::span<const Variable> inputs, const Pass& /*pass*/) override {
    return global_average_pool(inputs[0]);
  }
};

}  // namespace heddle

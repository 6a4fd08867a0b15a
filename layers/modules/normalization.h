// Batch norm, alone or fused with the residual sum and the activation that follow it; layer norm.
#pragma once

#include <map>
#include <optional>

#include "framework/ops/normalization.h"
#include "layers/layer_spec.h"

namespace heddle {

struct BatchNormOptions {
  std::int64_t channels = 0;
  double epsilon = 1e-5;
  double momentum = 0.1;  // weight of this step's statistics in the running ones
  NormActivation activation = NormActivation::none;
  std::string slope_name{};   // prelu: full name of the layer that its slope belongs to, e.g. layer1.0.prelu
  bool fixed_scale = false;   // gamma stays 1 (InsightFace's `features`)
  double initial_scale = 1;   // gamma at the start
  bool synchronized = false;  // statistics over the samples of all data-parallel ranks
};

/// [.., C] -> activation(norm(x) + residual), where the residual is a second input.
///
/// Training normalises by the statistics of a sample group: one data-parallel rank's part of a micro-batch, or, if
/// synchronized, the whole micro-batch. If ranks along other axes share a group's samples, they exchange sums; if
/// channels are sharded (`group`), nothing is exchanged. The running statistics are updated once per step, from the
/// moments of all groups of the global batch merged in a fixed order, as one large batch would (with unbiased
/// variance).
class BatchNorm final : public Layer {
 public:
  static LayerSpecPointer spec(const BatchNormOptions& options, bool with_residual = false);
  BatchNorm(Construction& construction, const std::string& name, const BatchNormOptions& options,
            const LayerLayout& layout);
  Variable forward(std::span<const Variable> inputs, const Pass& pass) override;
  std::vector<Parameter*> parameters() override;
  std::vector<Buffer*> buffers() override { return {&running_mean_, &running_variance_}; }
  void end_step(Rank& rank) override;
  void drop_step() override { groups_.clear(); }

 private:
  BatchNormOptions options_;
  AxisSet shared_;    // axes whose ranks hold samples of one group
  AxisSet separate_;  // axes whose ranks hold different groups
  Parameter gamma_;
  Parameter beta_;
  std::optional<Parameter> slope_;
  Buffer running_mean_;
  Buffer running_variance_;
  /// The moments of this step, one row [2C + 1] for each micro-batch so far, keyed by its first sample, which an empty
  /// micro-batch shares with the next one.
  std::multimap<std::int64_t, Tensor> groups_;
};

/// Layer norm over the last dimension.
class LayerNorm final : public Layer {
 public:
  static LayerSpecPointer spec(std::int64_t channels, double epsilon = 1e-5);
  LayerNorm(Construction& construction, const std::string& name, std::int64_t channels, double epsilon,
            const LayerLayout& layout);
  Variable forward(std::span<const Variable> inputs, const Pass& pass) override;
  std::vector<Parameter*> parameters() override { return {&gamma_, &beta_}; }

 private:
  double epsilon_;
  Parameter gamma_;
  Parameter beta_;
};

}  // namespace heddle

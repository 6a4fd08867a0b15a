#include "layers/normalization.h"

#include "framework/device.h"
#include "framework/ops/shape.h"

namespace heddle {

BatchNorm::BatchNorm(Construction& construction, const std::string& name, const BatchNormOptions& options)
    : options_(options) {
  const Shape shape{options.channels};
  gamma_ = make_parameter(construction, name + ".weight", shape, Initial::constant(options.initial_scale),
                          {.is_norm_or_bias = true, .trainable = !options.fixed_scale});
  beta_ = make_parameter(construction, name + ".bias", shape, Initial::constant(0), {.is_norm_or_bias = true});
  if (options.activation == NormActivation::prelu)
    slope_ = make_parameter(construction, options.slope_name + ".weight", shape, Initial::constant(0.25),
                            {.is_norm_or_bias = true});
  running_mean_ = make_buffer(construction, name + ".running_mean", shape, 0);
  running_variance_ = make_buffer(construction, name + ".running_var", shape, 1);
}

Variable BatchNorm::forward(std::span<const Variable> inputs, const Pass& pass) {
  const NormEpilogue epilogue{.activation = options_.activation,
                              .slope = slope_ ? slope_->variable : Variable(),
                              .residual = inputs.size() > 1 ? inputs[1] : Variable()};
  if (!pass.training)
    return batch_norm_inference(inputs[0], running_mean_.value, running_variance_.value, gamma_.variable,
                                beta_.variable, options_.epsilon, epilogue);
  Tensor group = new_group(inputs[0].value());
  Variable y = batch_norm(inputs[0], gamma_.variable, beta_.variable, options_.epsilon, epilogue, group);
  groups_.push_back(std::move(group));
  return y;
}

Tensor BatchNorm::new_group(const Tensor& x) const {
  const MemoryScope scope(x.device(), Category::workspace);
  return Tensor::empty(x.device(), {2 * options_.channels + 1}, compute_dtype(x.dtype()));
}

void BatchNorm::end_step(Rank& rank) {
  if (groups_.empty()) return;
  const MemoryScope scope(rank.device, Category::workspace);
  const auto micro_batches = static_cast<std::int64_t>(groups_.size());
  const std::int64_t width = groups_[0].numel();
  const Tensor mine = concat_tensors(groups_, 0).reshape({micro_batches, width});
  groups_.clear();
  // Gathered rank by rank; the batch's order is micro-batch by micro-batch, each over the ranks.
  const Tensor gathered = rank.along(Axis::dp).all_gather(mine);
  const std::int64_t ranks = gathered.shape()[0] / micro_batches;
  const Tensor ordered = transpose(Variable(gathered.reshape({ranks, micro_batches, width})), {1, 0, 2}).value();
  rank.device.backend().training().merge_moments(ordered.reshape({ranks * micro_batches, width}), options_.momentum,
                                                 running_mean_.value, running_variance_.value);
}

std::vector<Parameter*> BatchNorm::parameters() {
  if (slope_) return {&gamma_, &beta_, &*slope_};
  return {&gamma_, &beta_};
}

LayerNorm::LayerNorm(Construction& construction, const std::string& name, std::int64_t channels, double epsilon)
    : epsilon_(epsilon),
      gamma_(
          make_parameter(construction, name + ".weight", {channels}, Initial::constant(1), {.is_norm_or_bias = true})),
      beta_(make_parameter(construction, name + ".bias", {channels}, Initial::constant(0), {.is_norm_or_bias = true})) {
}

Variable LayerNorm::forward(std::span<const Variable> inputs, const Pass& /*pass*/) {
  return layer_norm(inputs[0], gamma_.variable, beta_.variable, epsilon_);
}

}  // namespace heddle

#include "framework/optimizers/weight_averages.h"

#include <algorithm>

#include "framework/description/describe.h"
#include "framework/ops/elementwise.h"
#include "framework/tensors/device.h"

namespace heddle {

namespace {

/// The values of a tensor in the type of another one.
void copy_values(const Tensor& from, Tensor to) {
  if (from.dtype() == to.dtype())
    to.copy_from(from);
  else
    from.device().backend().elementwise().cast(from, to);
}

}  // namespace

void describe(Describer& d, EmaConfig& c) {
  d.field("decay", c.decay, from_to_below(0, 1), "factor of the average in each step; that of the weight is 1 - decay");
  d.field("warm_up", c.warm_up, "whether the decay is at most (1 + step) / (10 + step)");
}

double ema_decay(const EmaConfig& config, std::int64_t step) {
  if (!config.warm_up) return config.decay;
  const auto steps = static_cast<double>(step);
  return std::min(config.decay, (1 + steps) / (10 + steps));
}

WeightAverages::WeightAverages(const EmaConfig& config, std::vector<Averaged> weights)
    : config_(config), weights_(std::move(weights)) {
  for (const Averaged& averaged : weights_) {
    const Tensor& weight = averaged.weight;
    const MemoryScope scope(weight.device(), Category::optimizer);
    averages_.push_back(Tensor::empty(weight.device(), weight.shape(), compute_dtype(weight.dtype())));
  }
  restart();
}

void WeightAverages::restart() {
  for (std::size_t i = 0; i < weights_.size(); ++i) copy_values(weights_[i].weight, averages_[i]);
}

void WeightAverages::update(std::int64_t step) {
  // Differences are small numbers, so that the average of weights that stand still has their bits.
  const double share = 1 - ema_decay(config_, step);
  constexpr std::int64_t max_elements = std::int64_t{1} << 18;  // stay in the cache
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    const std::int64_t elements = averages_[i].numel();
    const Tensor weights = weights_[i].weight.reshape({elements});
    const Tensor averages = averages_[i].reshape({elements});
    const MemoryScope scope(averages.device(), Category::workspace);
    const ElementwiseKernels& kernels = averages.device().backend().elementwise();
    for (std::int64_t begin = 0; begin < elements; begin += max_elements) {
      const std::int64_t end = std::min(begin + max_elements, elements);
      Tensor average = averages.rows(begin, end);
      Tensor change = Tensor::empty_like(average);
      kernels.binary(BinaryOp::subtract, in_type(weights.rows(begin, end), average.dtype()), average, change);
      kernels.scale_add(share, change, 1, average);
    }
  }
}

void WeightAverages::use() {
  if (!kept_.empty()) fail("averages are in use already");
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    const Tensor& weight = weights_[i].weight;
    const MemoryScope scope(weight.device(), Category::workspace);
    kept_.push_back(weight.clone());
    copy_values(averages_[i], weight);
    weight.storage()->changed();
  }
}

void WeightAverages::restore() {
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    copy_values(kept_[i], weights_[i].weight);
    weights_[i].weight.storage()->changed();
  }
  kept_.clear();
}

std::vector<Optimizer::State> WeightAverages::state() const {
  std::vector<Optimizer::State> states;
  for (std::size_t i = 0; i < weights_.size(); ++i)
    states.push_back({average_prefix + weights_[i].name, weights_[i].name, averages_[i]});
  return states;
}

}  // namespace heddle

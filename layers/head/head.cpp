#include "layers/head/head.h"

#include <utility>

#include "framework/ops/elementwise.h"
#include "framework/tensors/device.h"
#include "layers/head/head_checks.h"
#include "layers/head/head_costs.h"
#include "layers/head/head_pass.h"
#include "layers/head/weight_gradient.h"

namespace heddle {

namespace {

const HeadConfig& checked(const HeadConfig& config, const OptimizerConfig& optimizer, DType dtype, const Mesh& mesh) {
  check(config, optimizer, dtype);
  check_split(config, mesh.size(config.class_axes()));
  return config;
}

}  // namespace

Head::Head(const HeadConfig& config, const OptimizerConfig& optimizer, std::int64_t dimension, Rank& rank,
           Construction& construction, const std::string& name, HeadWork work)
    : config_(checked(config, optimizer, construction.precision.wide(), rank.mesh)),
      work_(work),
      name_(name),
      device_(construction.device),
      ranks_(rank.over(config.class_axes())),
      copies_(rank.over(config.copy_axes())),
      loss_(rank.over(config.loss_reduction == LossReduction::reduce_scatter ? config.axes() : config.sample_axes())),
      dtype_(construction.precision.wide()),
      product_type_(product_type(config, dtype_, device_.backend().linear_algebra().is_bf16_fast())),
      margin_(config.margin, device_, rank.mesh.larger_than_one(every_axis.without(config.axes())), name),
      state_(config_, optimizer, dimension, config.classes_of(ranks_.size(), ranks_.rank()), rank, construction, name),
      sample_(config_, state_.classes(), ranks_.size(), rank.key, device_, !rank.clock.is_virtual()),
      tiles_(state_.weights(), dtype_, product_type_, config.normalize, tile_rows(config, dimension),
             config.sub_centres) {
  tiles_.select({}, state_.biases());
  if (work != HeadWork::at_once) messages_.emplace(ranks_.split(0));
}

std::vector<StateTensor> Head::state() {
  std::vector<StateTensor> all = margin_.state();
  for (StateTensor& of_classes : state_.state()) all.push_back(std::move(of_classes));
  return all;
}

ClassTable& Head::table() {
  state_.catch_up_all();
  return state_.weights();
}

void Head::begin_step(std::int64_t step, std::span<const std::int64_t> labels) {
  forget();
  margin_.begin_step();
  step_ = step;
  if (config_.samples()) sample_.begin_step(step, labels);
}

void Head::take_sample() {
  if (!sample_.take()) return;
  const MemoryScope scope(device_, Category::workspace);
  const Tensor corrections = sample_.corrections(dtype_);
  const Tensor index = sample_.index();
  state_.catch_up(index);
  Tensor biases = state_.biases_at(index);
  if (biases.defined() && corrections.defined())
    device_.backend().elementwise().binary(BinaryOp::add, biases, corrections, biases);
  tiles_.select(index, biases.defined() ? biases : corrections);
}

void Head::forget() {
  kept_.clear();
  tiles_.select({}, state_.biases());
  sample_.clear();
}

HeadOutput Head::forward_backward(const HeadInput& input) {
  HeadPass pass(*this, input);
  pass.sum();
  pass.compute_gradient();
  return pass.output();
}

void Head::weigh(const LogitsInput& input, Tensor& losses) const {
  Tensor weights = input.loss_factors.row_weights;
  if (!weights.defined()) return;
  if (scatters_loss()) {
    const IndexRange own = input.own_rows();
    weights = weights.rows(own.begin, own.end());
  }
  device_.backend().elementwise().binary(BinaryOp::multiply, losses, weights, losses);
}

Tensor Head::loss_sum(const Tensor& losses, double scale) {
  Tensor sum = Tensor::empty(device_, {}, losses.dtype());
  device_.backend().reduction().reduce(ReduceOp::sum, losses, {1, losses.numel(), 1}, sum);
  device_.backend().elementwise().scale_add(scale, sum, 0, sum);
  // Each rank has the losses of all samples of its group, or those of its own samples.
  return loss_.size() > 1 ? Tensor(loss_.all_reduce(sum)) : sum;
}

void Head::for_each_gradient(const std::function<void(const ClassTile&, const ClassGradient&)>& consumer) {
  const std::int64_t first_class = config_.samples() ? 0 : classes().begin;
  WeightGradient(config_, tiles_, kept_, first_class, has_copies() ? &copies_ : nullptr).for_each(consumer);
}

void Head::update(const HeadUpdate& update) {
  const bool is_dense = config_.has_dense_gradient();
  for_each_gradient([&](const ClassTile& tile, const ClassGradient& gradient) {
    if (is_dense)
      state_.add_gradient(tile, gradient);
    else
      state_.step(tile, gradient, update);
  });
  if (is_dense)
    state_.step_all(update, tiles_.tile_size());
  else if (config_.samples() && config_.sample.unsampled == Unsampled::dense)
    state_.step_unsampled(sample_.drawn(), update, tiles_.tile_size());
  state_.end_step(update);
  end_margin_step();
  forget();
}

void Head::skip_update() {
  forget();
}

ClassGradient Head::gradient() {
  ClassGradient gradient;
  {
    const MemoryScope scope(device_, Category::gradients);
    gradient.weight = Tensor::empty(device_, {tiles_.size(), dimension()}, dtype_);
    if (config_.bias) gradient.bias = Tensor::empty(device_, {tiles_.size(), 1}, dtype_);
  }
  for_each_gradient([&](const ClassTile& tile, const ClassGradient& of_tile) {
    Tensor rows = gradient.weight.rows(tile.begin, tile.end());
    if (config_.normalize)
      device_.backend().normalization().l2_normalize_backward(in_type(tile.rows, dtype_), tile.inverse_norm,
                                                              of_tile.weight, rows);
    else
      rows.copy_from(of_tile.weight);
    if (gradient.bias.defined()) gradient.bias.rows(tile.begin, tile.end()).copy_from(of_tile.bias);
  });
  forget();
  return gradient;
}

void Head::store_gradient() {
  ClassGradient whole = gradient();
  const std::vector<Parameter*> parameters = state_.parameters();
  parameters[0]->gradient->add(std::move(whole.weight));
  if (config_.bias) parameters[1]->gradient->add(std::move(whole.bias));
}

void Head::end_margin_step() {
  margin_.add_rows_of(copies_);
  margin_.end_step();
}

void Head::add_squared_gradient(double bound, Tensor& result) {
  for_each_gradient([&](const ClassTile& tile, const ClassGradient& gradient) {
    if (has_copies() && copies_.rank() > 0) return;
    state_.add_squared_gradient(tile, gradient, bound, result);
  });
}

}  // namespace heddle

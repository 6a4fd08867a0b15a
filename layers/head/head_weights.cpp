// Phase 2 of the head: the weights' gradient, tile by tile, and its use.
#include "framework/ops/elementwise.h"
#include "framework/ops/linear_algebra.h"
#include "framework/tensors/device.h"
#include "layers/head/head.h"
#include "layers/head/tile_logits.h"

namespace heddle {

/// A micro-batch's rows [B, d] in the form in which tiles of classes are multiplied with them.
struct PackedRows {
  PackedRows(const Tensor& rows, const ClassTiles& tiles)
      : for_logits(rows, true, tiles.tile_size(), tiles.size() / tiles.tile_size()),
        for_weights(rows, false, tiles.tile_size(), tiles.size() / tiles.tile_size()) {}
  PackedOperand for_logits;
  PackedOperand for_weights;
};

std::int64_t Head::first_column(const ClassTile& tile) const {
  return (config_.samples() ? 0 : shard_.begin) + tile.first_class();
}

Tensor Head::tile_gradient(const KeptRows& kept, const ClassTile& tile) const {
  const HeadKernels& kernels = device_.backend().head();
  const std::int64_t first = first_column(tile);
  const std::int64_t batch = kept.factors.shape()[0];
  if (config_.stash) {
    Tensor gradient = Tensor::empty(device_, {batch, tile.selection.size}, dtype_);
    kernels.stashed_gradient(config_.margin, {.labels = kept.labels, .begin = first, .scale = tile.inverse_norm},
                             kept.loss_scale,
                             {.reference = kept.stash.reference(tile),
                              .log_sums = kept.log_sums,
                              .target_logit = kept.target_logit,
                              .target_slope = kept.target_slope},
                             kept.stash.tile(tile, batch), gradient);
    return gradient;
  }
  TileLogits logits = tile_logits(kept.factors, kept.labels, tile, first, dtype_);
  Tensor target_logit = Tensor::empty(device_, {batch}, dtype_);
  Tensor target_slope = Tensor::empty_like(target_logit);
  Tensor row_max = Tensor::empty_like(target_logit);
  kernels.margin_logits(kept.margin, logits.columns, logits.values, target_logit, target_slope, row_max);
  logits.columns.scale = Tensor();
  kernels.margin_gradient(kept.margin, logits.columns, kept.log_sums, target_slope, kept.loss_scale, logits.values);
  return by_products(logits, tile, Tensor());
}

bool Head::steps_by_class() const {
  return !config_.stash && !config_.bias && config_.sub_centres == 1 && !has_negative_map(config_.margin);
}

Tensor Head::gradient_by_class(const KeptRows& kept, const PackedRows& packed, const ClassTile& tile) const {
  Tensor values = Tensor::empty(device_, {tile.selection.size, kept.factors.shape()[0]}, dtype_);
  packed.for_logits.multiply(tile.rows, 0, values);
  const HeadColumns columns{
      .labels = kept.labels, .begin = first_column(tile), .scale = tile.inverse_norm, .bias = tile.bias};
  device_.backend().head().gradient_by_class(kept.margin, columns, kept.log_sums, kept.loss_scale, values);
  return values;
}

TileProducts Head::tile_products(const ClassTile& tile, const std::vector<PackedRows>& packed) {
  TileProducts sum{.weight = Tensor::empty(device_, {tile.selection.size, dimension()}, dtype_)};
  if (config_.bias) sum.bias = Tensor::zeros(device_, {tile.selection.size, 1}, dtype_);
  double beta = 0;
  for (std::size_t i = 0; i < kept_.size(); ++i) {
    const KeptRows& kept = kept_[i];
    if (!packed.empty()) {
      const Tensor gradient = gradient_by_class(kept, packed[i], tile);
      packed[i].for_weights.multiply(in_type(gradient, kept.factors.dtype()), beta, sum.weight);
    } else {
      const Tensor gradient = tile_gradient(kept, tile);
      multiply(gradient, true, kept.factors, beta, sum.weight);
      if (config_.bias) add_bias_gradient(gradient, sum.bias);
    }
    if (kept.radial.defined())
      device_.backend().head().add_radial(kept.radial, kept.labels, first_column(tile), tile.rows, sum.weight);
    beta = 1;
  }
  if (kept_.empty()) sum.weight.fill(0);
  if (!has_copies()) return sum;
  copies_.all_reduce_in_place(sum.weight).wait();
  if (config_.bias) copies_.all_reduce_in_place(sum.bias).wait();
  return sum;
}

void Head::add_bias_gradient(const Tensor& by_product, Tensor& sum) const {
  Tensor of_rows = Tensor::empty_like(sum);
  device_.backend().reduction().reduce(ReduceOp::sum, by_product, {1, by_product.shape()[0], sum.numel()}, of_rows);
  device_.backend().elementwise().scale_add(1 / config_.margin.scale, of_rows, 1, sum);
}

void Head::weight_tiles(const std::function<void(const ClassTile&, const TileProducts&)>& consumer) {
  const MemoryScope scope(device_, Category::workspace);
  std::vector<PackedRows> packed;
  if (steps_by_class())
    for (const KeptRows& kept : kept_) packed.emplace_back(kept.factors, *tiles_);
  tiles_->for_each([&](const ClassTile& tile) { consumer(tile, tile_products(tile, packed)); },
                   has_copies() ? TileWork::shared : TileWork::own);
}

ClassStep Head::class_step(const HeadUpdate& update) const {
  return {.update = step_of(optimizer_, update.step - first_step_, update.learning_rate, optimizer_.weight_decay),
          .bound = update.bound,
          .factor = update.factor,
          .rounding = {.key = key_,
                       .purpose = Purpose::rounding,
                       .step = static_cast<std::uint32_t>(update.step),
                       .layer = stream_},
          .first_element = part_.box[0].begin * dimension(),
          .taken = put_off_ ? put_off_->steps().count + 1 : 0};
}

void Head::update(const HeadUpdate& update) {
  const ClassStep step = class_step(update);
  ClassStep bias_step = step;
  if (!optimizer_.decay_norms_and_biases)
    bias_step.update = step_of(optimizer_, update.step - first_step_, update.learning_rate, 0);
  weight_tiles([&](const ClassTile& tile, const TileProducts& products) {
    const ClassRowKernels& kernels = device_.backend().class_rows();
    kernels.step(table_, tile.selection, tile.rows, tile.inverse_norm, products.weight, step);
    if (products.bias.defined())
      kernels.step(bias_, tile.selection, bias_.weight.rows(tile.begin, tile.end()), Tensor(), products.bias,
                   bias_step);
  });
  if (config_.samples() && config_.sample.unsampled == Unsampled::dense) step_unsampled(step);
  if (put_off_) put_off(step);
  table_.weight.storage()->changed();
  end_margin_step();
  forget();
}

void Head::skip_update() {
  forget();
}

void Head::step_unsampled(const ClassStep& step) {
  const MemoryScope scope(device_, Category::workspace);
  std::vector<std::int64_t> others;
  auto sampled = sample_.rows.begin();
  for (std::int64_t row = 0; device_.has_data() && row < part_.box[0].size; ++row) {
    if (sampled != sample_.rows.end() && *sampled == row)
      ++sampled;
    else
      others.push_back(row);
  }
  ClassTiles rest(table_, dtype_, dtype_, false, tiles_->tile_size());
  rest.select(given(device_, others, part_.box[0].size - sample_.size));
  rest.for_each([&](const ClassTile& tile) {
    device_.backend().class_rows().step(table_, tile.selection, tile.rows, Tensor(), Tensor(), step);
  });
}

void Head::put_off(const ClassStep& step) {
  const auto& update = std::get<SgdStep>(step.update);
  put_off_->add(dtype_ == DType::f64 ? sgd_map<double>(update) : sgd_map<float>(update));
  if (put_off_->is_full()) catch_up_all();
}

void Head::catch_up_all() {
  if (!put_off_ || put_off_->steps().count == 0) return;
  device_.backend().class_rows().catch_up(table_, {.size = part_.box[0].size}, put_off_->steps());
  table_.taken.fill(0);
  put_off_->clear();
  table_.weight.storage()->changed();
}

Tensor Head::weight_gradient() {
  Tensor gradient;
  {
    const MemoryScope scope(device_, Category::gradients);
    gradient = Tensor::empty(device_, {tiles_->size(), dimension()}, dtype_);
  }
  weight_tiles([&](const ClassTile& tile, const TileProducts& products) {
    Tensor rows = gradient.rows(tile.begin, tile.end());
    if (config_.normalize)
      device_.backend().normalization().l2_normalize_backward(in_type(tile.rows, dtype_), tile.inverse_norm,
                                                              products.weight, rows);
    else
      rows.copy_from(products.weight);
  });
  forget();
  return gradient;
}

void Head::store_weight_gradient() {
  weight_.gradient->add(weight_gradient());
  end_margin_step();
}

void Head::end_margin_step() {
  margin_.add_rows_of(copies_);
  margin_.end_step();
}

void Head::add_squared_gradient(double bound, Tensor& result) {
  weight_tiles([&](const ClassTile& tile, const TileProducts& products) {
    if (has_copies() && copies_.rank() > 0) return;
    const ClassRowKernels& kernels = device_.backend().class_rows();
    kernels.add_squared_gradient(tile.rows, tile.inverse_norm, products.weight, bound, result);
    if (products.bias.defined())
      kernels.add_squared_gradient(bias_.weight.rows(tile.begin, tile.end()), Tensor(), products.bias, bound, result);
  });
}

}  // namespace heddle

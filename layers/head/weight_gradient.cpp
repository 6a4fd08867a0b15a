#include "layers/head/weight_gradient.h"

#include "framework/ops/elementwise.h"
#include "framework/ops/linear_algebra.h"
#include "framework/tensors/device.h"
#include "layers/head/logits/tile_logits.h"

namespace heddle {

/// A micro-batch's rows [B, d] in the form in which tiles of classes are multiplied with them.
struct PackedRows {
  /// For this many tiles; those of one are multiplied as they are.
  PackedRows(const Tensor& rows, std::int64_t tile_size, std::int64_t tiles)
      : for_logits(rows, true, tile_size, tiles), for_weights(rows, false, tile_size, tiles) {}
  PackedOperand for_logits;
  PackedOperand for_weights;
};

WeightGradient::WeightGradient(const HeadConfig& config, const ClassTiles& tiles, std::span<const KeptRows> kept,
                               std::int64_t first_class, Communicator* copies)
    : config_(config),
      tiles_(tiles),
      kept_(kept),
      first_class_(first_class),
      copies_(copies),
      device_(tiles.device()) {}

Tensor WeightGradient::by_sample(const KeptRows& kept, const ClassTile& tile) const {
  const HeadKernels& kernels = device_.backend().head();
  const std::int64_t first = first_column(tile);
  const std::int64_t batch = kept.operand.shape()[0];
  if (config_.stash) {
    Tensor gradient = Tensor::empty(device_, {batch, tile.selection.size}, kept.operand.dtype());
    kernels.stashed_gradient(config_.margin, {.labels = kept.labels, .begin = first, .scale = tile.inverse_norm},
                             kept.loss_factors,
                             {.reference = kept.stash.reference(tile),
                              .log_sums = kept.log_sums,
                              .target_logit = kept.target_logit,
                              .target_slope = kept.target_slope},
                             kept.stash.tile(tile, batch), gradient);
    return gradient;
  }
  TileLogits logits = tile_logits(kept.operand, kept.labels, tile, first, tiles_.dtype());
  Tensor target_logit = Tensor::empty(device_, {batch}, tiles_.dtype());
  Tensor target_slope = Tensor::empty_like(target_logit);
  Tensor row_max = Tensor::empty_like(target_logit);
  kernels.margin_logits(kept.margin, logits.columns, logits.values, target_logit, target_slope, row_max);
  logits.columns.scale = Tensor();
  kernels.margin_gradient(kept.margin, logits.columns, kept.log_sums, target_slope, kept.loss_factors, logits.values);
  return by_products(logits, tile, Tensor());
}

bool WeightGradient::goes_by_class() const {
  return !config_.stash && !config_.bias && config_.sub_centres == 1 && !has_negative_map(config_.margin);
}

Tensor WeightGradient::by_class(const KeptRows& kept, const PackedRows& packed, const ClassTile& tile) const {
  Tensor values = Tensor::empty(device_, {tile.selection.size, kept.operand.shape()[0]}, tiles_.dtype());
  packed.for_logits.multiply(tile.rows, 0, values);
  const HeadColumns columns{
      .labels = kept.labels, .begin = first_column(tile), .scale = tile.inverse_norm, .bias = tile.bias};
  Tensor gradient = in_place_or(values, kept.operand.dtype());
  device_.backend().head().gradient_by_class(kept.margin, columns, kept.log_sums, kept.loss_factors, values, gradient);
  return gradient;
}

ClassGradient WeightGradient::of_tile(const ClassTile& tile, const std::vector<PackedRows>& packed) const {
  const DType dtype = tiles_.dtype();
  ClassGradient sum{.weight = Tensor::empty(device_, {tile.selection.size, tiles_.dimension()}, dtype)};
  if (config_.bias) sum.bias = Tensor::zeros(device_, {tile.selection.size, 1}, dtype);
  double beta = 0;
  for (std::size_t i = 0; i < kept_.size(); ++i) {
    const KeptRows& kept = kept_[i];
    if (!packed.empty()) {
      const Tensor gradient = by_class(kept, packed[i], tile);
      packed[i].for_weights.multiply(gradient, beta, sum.weight);
    } else {
      const Tensor gradient = by_sample(kept, tile);
      multiply(gradient, true, kept.operand, beta, sum.weight);
      if (config_.bias) add_bias_gradient(gradient, sum.bias);
    }
    if (kept.radial.defined())
      device_.backend().head().add_radial(kept.radial, kept.labels, first_column(tile), tile.rows, sum.weight);
    beta = 1;
  }
  if (kept_.empty()) sum.weight.fill(0);
  if (copies_ == nullptr) return sum;
  copies_->all_reduce_in_place(sum.weight).wait();
  if (config_.bias) copies_->all_reduce_in_place(sum.bias).wait();
  return sum;
}

void WeightGradient::add_bias_gradient(const Tensor& by_product, Tensor& sum) const {
  Tensor of_rows = Tensor::empty_like(sum);
  device_.backend().reduction().reduce(ReduceOp::sum, by_product, {1, by_product.shape()[0], sum.numel()}, of_rows);
  device_.backend().elementwise().scale_add(1 / config_.margin.scale, of_rows, 1, sum);
}

void WeightGradient::for_each(const std::function<void(const ClassTile&, const ClassGradient&)>& consumer) const {
  const MemoryScope scope(device_, Category::workspace);
  // Both forms of all micro-batches' rows exist at once. Larger ones would outgrow the head, and are not packed.
  constexpr std::int64_t max_packed_bytes = std::int64_t{256} << 20;
  std::int64_t packed_bytes = 0;
  for (const KeptRows& kept : kept_) packed_bytes += 3 * kept.operand.bytes();  // 2, or 3 where an f32 has three parts
  const std::int64_t tiles = packed_bytes <= max_packed_bytes ? tiles_.size() / tiles_.tile_size() : 1;
  std::vector<PackedRows> packed;
  if (goes_by_class())
    for (const KeptRows& kept : kept_) packed.emplace_back(kept.operand, tiles_.tile_size(), tiles);
  tiles_.for_each([&](const ClassTile& tile) { consumer(tile, of_tile(tile, packed)); },
                  copies_ != nullptr ? TileWork::shared : TileWork::own);
}

}  // namespace heddle

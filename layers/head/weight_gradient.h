// Phase 2 of the head: the gradient by the weights over all kept rows, class tile by class tile. The gradient of all
// classes is never held.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "layers/head/class_tiles.h"
#include "layers/head/head_config.h"
#include "layers/head/logits/logits.h"
#include "parallel/communicator/communicator.h"

namespace heddle {

struct PackedRows;

class WeightGradient {
 public:
  /// `first_class`: the class of the first column, as the labels of the kept rows count them. `copies`: the ranks that
  /// have the same classes and have kept different rows; null if there are none, or their gradients are summed later.
  WeightGradient(const HeadConfig& config, const ClassTiles& tiles, std::span<const KeptRows> kept,
                 std::int64_t first_class, Communicator* copies);

  /// Visits every tile with its gradient. A collective call of the copies.
  void for_each(const std::function<void(const ClassTile&, const ClassGradient&)>& consumer) const;

 private:
  /// `packed`: the rows of each micro-batch; empty if the gradient is not computed by class.
  ClassGradient of_tile(const ClassTile& tile, const std::vector<PackedRows>& packed) const;
  /// The gradient by the products of one micro-batch's rows with the tile's rows, [B, t].
  Tensor by_sample(const KeptRows& kept, const ClassTile& tile) const;
  /// The same as [t, B]: with one row per class, no operand of the weights' gradient has to be transposed.
  Tensor by_class(const KeptRows& kept, const PackedRows& packed, const ClassTile& tile) const;
  /// Whether gradients are computed by class. The kernels for a stash, several centres, a bias' gradient and negative
  /// maps need one row per sample.
  bool goes_by_class() const;
  std::int64_t first_column(const ClassTile& tile) const { return first_class_ + tile.first_class(); }
  void add_bias_gradient(const Tensor& by_product, Tensor& sum) const;

  const HeadConfig& config_;
  const ClassTiles& tiles_;
  std::span<const KeptRows> kept_;
  std::int64_t first_class_;
  Communicator* copies_;
  Device& device_;
};

}  // namespace heddle

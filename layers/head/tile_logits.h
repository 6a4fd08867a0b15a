// Products of rows and a tile of the classes, as the head's kernels take them: one column a class, of its best centre
// where a class has several (Deng et al., "Sub-center ArcFace", 2020).
#pragma once

#include <cstdint>

#include "framework/kernels/head.h"
#include "layers/head/class_tiles.h"

namespace heddle {

struct TileLogits {
  Tensor values{};        // [B, c]: products; of the best centres cosines
  HeadColumns columns{};  // without a scale where they are cosines
  Tensor best{};          // [B, c], u8; undefined: a class has one centre
};

/// Of rows [B, d], in the type of the tile's, with these labels [B]; the tile begins with the class `first_class`. The
/// values are of `dtype`; they go to `into`, if that is given.
TileLogits tile_logits(const Tensor& rows, const Tensor& labels, const ClassTile& tile, std::int64_t first_class,
                       DType dtype, const Tensor& into = {});

/// [B, t], t rows of the tile: the gradient by their products with unit rows, from that by the values. scale [t] goes
/// to the centres that were best; it is undefined where it is in the gradient already.
Tensor by_products(const TileLogits& logits, const ClassTile& tile, const Tensor& scale);

/// sum = op(gradient) * rows + beta * sum: gradients of [B, t] products with rows, of f32 or f64, are rounded to the
/// type of the rows to be multiplied with them.
void multiply(const Tensor& gradient, bool transpose, const Tensor& rows, double beta, Tensor& sum);

}  // namespace heddle

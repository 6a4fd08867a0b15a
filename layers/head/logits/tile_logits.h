// The products of rows with a tile of the classes, as the head's kernels take them: one column per class, which is the
// column of its best centre if a class has several (Deng et al., "Sub-center ArcFace", 2020).
#pragma once

#include <cstdint>

#include "framework/kernels/head.h"
#include "layers/head/class_tiles.h"

namespace heddle {

struct TileLogits {
  Tensor values{};        // [B, c]: products; cosines if a class has several centres
  HeadColumns columns{};  // without a scale if the values are cosines
  Tensor best{};          // [B, c], u8; undefined if a class has one centre
};

/// Multiplies rows [B, d] with labels [B] by the rows of a tile, which have the same type; the tile begins with the
/// class `first_class`. The values are of `dtype`, and are written to `into` if that is given.
TileLogits tile_logits(const Tensor& rows, const Tensor& labels, const ClassTile& tile, std::int64_t first_class,
                       DType dtype, const Tensor& into = {});

/// The gradient by the products of the rows with the t normalised rows of the tile, [B, t], from the gradient by the
/// values. `scale` [t] is applied to the best centres; it is undefined if the gradient contains it already.
Tensor by_products(const TileLogits& logits, const ClassTile& tile, const Tensor& scale);

/// x, or a new tensor of its shape if that is to have another type.
Tensor in_place_or(const Tensor& x, DType dtype);

/// sum = op(gradient) * rows + beta * sum, where the gradient [B, t] is first rounded to the type of the rows.
void multiply(const Tensor& gradient, bool transpose, const Tensor& rows, double beta, Tensor& sum);

}  // namespace heddle

#include "layers/head/logits/tile_logits.h"

#include "framework/ops/elementwise.h"
#include "framework/ops/linear_algebra.h"
#include "framework/tensors/device.h"

namespace heddle {

TileLogits tile_logits(const Tensor& rows, const Tensor& labels, const ClassTile& tile, std::int64_t first_class,
                       DType dtype, const Tensor& into) {
  Device& device = rows.device();
  const std::int64_t batch = rows.shape()[0];
  TileLogits logits{.columns = {.labels = labels, .begin = first_class, .bias = tile.bias}};
  Tensor products = into.defined() ? into : Tensor::empty(device, {batch, tile.selection.size}, dtype);
  gemm(rows, false, tile.rows, true, 1, 0, products);
  if (tile.centres == 1) {
    logits.values = products;
    logits.columns.scale = tile.inverse_norm;
    return logits;
  }
  const std::int64_t classes = tile.selection.size / tile.centres;
  logits.values = Tensor::empty(device, {batch, classes}, dtype);
  logits.best = Tensor::empty(device, {batch, classes}, DType::u8);
  device.backend().head().best_centres(products, tile.inverse_norm, logits.values, logits.best);
  return logits;
}

Tensor by_products(const TileLogits& logits, const ClassTile& tile, const Tensor& scale) {
  if (!logits.best.defined()) return logits.values;
  Device& device = logits.values.device();
  Tensor gradient = Tensor::empty(device, {logits.values.shape()[0], tile.selection.size}, logits.values.dtype());
  device.backend().head().spread_centres(logits.values, logits.best, scale, gradient);
  return gradient;
}

Tensor in_place_or(const Tensor& x, DType dtype) {
  return x.dtype() == dtype ? x : Tensor::empty(x.device(), x.shape(), dtype);
}

void multiply(const Tensor& gradient, bool transpose, const Tensor& rows, double beta, Tensor& sum) {
  gemm(in_type(gradient, rows.dtype()), transpose, rows, false, 1, beta, sum);
}

}  // namespace heddle

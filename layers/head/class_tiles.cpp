#include "layers/head/class_tiles.h"

#include <algorithm>

#include "framework/tensors/device.h"

namespace heddle {

ClassTiles::ClassTiles(const ClassTable& table, DType dtype, DType multiplied, bool normalize, std::int64_t tile,
                       std::int64_t centres)
    : table_(table),
      dtype_(dtype),
      multiplied_(multiplied),
      normalize_(normalize),
      tile_(tile),
      centres_(centres),
      size_(table.weight.shape()[0]) {}

void ClassTiles::select(const Tensor& index, const Tensor& bias) {
  index_ = index;
  bias_ = bias;
  size_ = index.defined() ? index.numel() : table_.weight.shape()[0];
}

ClassTile ClassTiles::load(std::int64_t begin, std::int64_t end) const {
  ClassTile tile{
      .index = begin / tile_, .begin = begin, .centres = centres_, .selection = {.begin = begin, .size = end - begin}};
  if (index_.defined()) tile.selection = {.begin = 0, .size = end - begin, .index = index_.rows(begin, end)};
  if (bias_.defined()) tile.bias = bias_.rows(begin / centres_, end / centres_);
  read(tile, multiplied_);
  return tile;
}

ClassTile ClassTiles::rows_at(const Tensor& rows) const {
  Device& device = table_.weight.device();
  const MemoryScope scope(device, Category::workspace);
  ClassTile tile{.selection = {.begin = 0, .size = rows.numel(), .index = rows}};
  if (index_.defined()) {
    tile.selection.index = Tensor::empty_like(rows);
    device.backend().rows().gather(index_, rows, tile.selection.index);
  }
  read(tile, dtype_);
  return tile;
}

void ClassTiles::read(ClassTile& tile, DType type) const {
  Device& device = table_.weight.device();
  const MemoryScope scope(device, Category::workspace);
  const std::int64_t size = tile.selection.size;
  const bool is_in_place = table_.weight.dtype() == type && !tile.selection.index.defined();
  const bool is_narrow = type != dtype_;
  tile.rows = is_in_place ? table_.weight.rows(tile.begin, tile.end())
                          : Tensor::empty(device, {size, table_.weight.shape()[1]}, type);
  if (is_narrow && !is_in_place) device.backend().rows().gather(table_.weight, tile.selection.index, tile.rows);
  Tensor widened = is_in_place || is_narrow ? Tensor() : tile.rows;
  if (normalize_) tile.inverse_norm = Tensor::empty(device, {size}, dtype_);
  if (widened.defined() || normalize_)
    device.backend().class_rows().load(table_, tile.selection, norm_epsilon, widened, tile.inverse_norm);
}

void ClassTiles::for_each(const std::function<void(const ClassTile&)>& body, TileWork work) const {
  for_each_tile(
      table_.weight.device(), size_, tile_, [&](std::int64_t begin, std::int64_t end) { body(load(begin, end)); },
      work);
}

}  // namespace heddle

#include "layers/head/class_tiles.h"

#include <algorithm>

#include "framework/device.h"

namespace heddle {

ClassTiles::ClassTiles(const ClassTable& table, DType dtype, bool normalize, std::int64_t tile, std::int64_t centres)
    : table_(table),
      dtype_(dtype),
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
  read(tile);
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
  read(tile);
  return tile;
}

void ClassTiles::read(ClassTile& tile) const {
  Device& device = table_.weight.device();
  const MemoryScope scope(device, Category::workspace);
  const std::int64_t size = tile.selection.size;
  const bool is_kept_so = !tile.selection.index.defined() && table_.weight.dtype() == dtype_;
  Tensor widened = is_kept_so ? Tensor() : Tensor::empty(device, {size, table_.weight.shape()[1]}, dtype_);
  if (normalize_) tile.inverse_norm = Tensor::empty(device, {size}, dtype_);
  if (!is_kept_so || normalize_)
    device.backend().class_rows().load(table_, tile.selection, norm_epsilon, widened, tile.inverse_norm);
  tile.rows = is_kept_so ? table_.weight.rows(tile.begin, tile.end()) : widened;
}

void ClassTiles::for_each(const std::function<void(const ClassTile&)>& body, TileWork work) const {
  for_each_tile(
      table_.weight.device(), size_, tile_, [&](std::int64_t begin, std::int64_t end) { body(load(begin, end)); },
      work);
}

}  // namespace heddle

// The classes of one rank as the head computes with them: tile by tile, in the type that is computed with, whatever
// they are kept in; all of them, or those of a step's sample. A class has one row, or several that follow each other:
// its centres.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "framework/kernels/class_rows.h"
#include "framework/tensors/device.h"
#include "framework/tensors/tiles.h"

namespace heddle {

/// On the device; on plan, which has none of them, so many.
template <class T>
Tensor given(Device& device, const std::vector<T>& values, std::int64_t size) {
  return device.has_data() ? Tensor::from_host(device, {size}, values) : Tensor::empty(device, {size}, dtype_of<T>);
}

/// Shorter rows are divided by this.
inline constexpr double norm_epsilon = 1e-12;

struct ClassTile {
  std::int64_t index = 0;  // among the tiles
  std::int64_t begin = 0;  // its first row among those of this rank
  Tensor rows{};           // [t, d]; the table's own where it is kept in the type that they are multiplied in
  Tensor inverse_norm{};   // [t]: 1 / |w|; none where nothing is normalised
  Tensor bias{};           // [t / centres], added to the logits of all rows; mostly none
  std::int64_t centres = 1;
  ClassSelection selection;
  std::int64_t end() const { return begin + selection.size; }
  /// Among those of this rank.
  std::int64_t first_class() const { return begin / centres; }
};

class ClassTiles {
 public:
  /// Computes in `dtype`, and multiplies rows in `multiplied`: that, or bf16 where the table has it. Tiles have `tile`
  /// rows each, a multiple of the centres.
  ClassTiles(const ClassTable& table, DType dtype, DType multiplied, bool normalize, std::int64_t tile,
             std::int64_t centres = 1);

  /// From now on the rows are those of the table that an index [n] names; undefined: all. `bias` [n / centres] or none.
  void select(const Tensor& index, const Tensor& bias = {});
  /// How many rows there are.
  std::int64_t size() const { return size_; }
  std::int64_t classes() const { return size_ / centres_; }
  std::int64_t centres() const { return centres_; }
  std::int64_t tile_size() const { return tile_; }
  std::int64_t tiles() const { return (size_ + tile_ - 1) / tile_; }
  /// Rows begin .. end - 1.
  ClassTile load(std::int64_t begin, std::int64_t end) const;
  ClassTile all() const { return load(0, size_); }
  /// Those that an index [n] among them names: [n, d], of the type that is computed in.
  ClassTile rows_at(const Tensor& rows) const;
  /// Every tile in order. Equal ones are walked once on plan, and counted, where the work is the rank's own.
  void for_each(const std::function<void(const ClassTile&)>& body, TileWork work = TileWork::own) const;

 private:
  /// Rows, of that type, and norms of the tile's selection.
  void read(ClassTile& tile, DType type) const;

  const ClassTable& table_;
  DType dtype_;
  DType multiplied_;
  bool normalize_;
  std::int64_t tile_;
  std::int64_t centres_;
  Tensor index_;
  Tensor bias_;
  std::int64_t size_;
};

}  // namespace heddle

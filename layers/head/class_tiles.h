// The classes of one rank as the head computes with them: tile by tile, in the type that is computed with, whatever
// they are kept in; all of them, or those of a step's sample.
#pragma once

#include <cstdint>
#include <functional>

#include "framework/kernels/class_rows.h"

namespace heddle {

/// Shorter rows are divided by this.
inline constexpr double norm_epsilon = 1e-12;

struct ClassTile {
  std::int64_t index = 0;  // among the tiles
  std::int64_t begin = 0;  // its first column among those of this rank
  Tensor rows{};           // [t, d]; the table's own where it is kept in the type that is computed with
  Tensor inverse_norm{};   // [t]: 1 / |w|; none where nothing is normalised
  Tensor bias{};           // [t], added to the logits of all rows; mostly none
  ClassSelection selection;
  std::int64_t end() const { return begin + selection.size; }
};

class ClassTiles {
 public:
  /// Computes in `dtype`. Tiles have `tile` classes each.
  ClassTiles(const ClassTable& table, DType dtype, bool normalize, std::int64_t tile);

  /// From now on the columns are those rows of the table that an index [n] names; undefined: all. `bias` [n] or none.
  void select(const Tensor& index, const Tensor& bias = {});
  /// How many columns there are.
  std::int64_t size() const { return size_; }
  std::int64_t tile_size() const { return tile_; }
  std::int64_t tiles() const { return (size_ + tile_ - 1) / tile_; }
  /// Columns begin .. end - 1.
  ClassTile load(std::int64_t begin, std::int64_t end) const;
  ClassTile all() const { return load(0, size_); }
  /// The rows that an index [n] of columns names: [n, d].
  ClassTile rows_at(const Tensor& columns) const;
  /// Every tile in order. Equal ones are walked once on plan, and counted.
  void for_each(const std::function<void(const ClassTile&)>& body) const;

 private:
  /// Rows and norms of the tile's selection.
  void read(ClassTile& tile) const;

  const ClassTable& table_;
  DType dtype_;
  bool normalize_;
  std::int64_t tile_;
  Tensor index_;
  Tensor bias_;
  std::int64_t size_;
};

}  // namespace heddle

// The classes of one rank as the head computes with them: tile by tile, in the type of the computation, whatever type
// they are kept in; all of them, or those of a step's sample. A class has one row, or several consecutive ones: its
// centres.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "framework/kernels/class_rows.h"
#include "framework/tensors/device.h"
#include "framework/tensors/tiles.h"

namespace heddle {

/// A tensor of these values on the device. On plan, which has no values, a tensor of this size.
template <class T>
Tensor tensor_of_values(Device& device, const std::vector<T>& values, std::int64_t size) {
  return device.has_data() ? Tensor::from_host(device, {size}, values) : Tensor::empty(device, {size}, dtype_of<T>);
}

/// A row that is shorter than this is divided by this value instead of its length.
inline constexpr double norm_epsilon = 1e-12;

struct ClassTile {
  std::int64_t index = 0;  // the number of this tile
  std::int64_t begin = 0;  // its first row among those of this rank
  Tensor rows{};           // [t, d]; a view of the table if all rows are selected and kept in the products' type
  Tensor inverse_norm{};   // [t]: 1 / |w|; undefined if nothing is normalised
  Tensor bias{};           // [t / centres], added to the logits of all rows; usually undefined
  std::int64_t centres = 1;
  ClassSelection selection;
  std::int64_t end() const { return begin + selection.size; }
  /// Its first class among those of this rank.
  std::int64_t first_class() const { return begin / centres; }
};

/// The gradients of n rows.
struct ClassGradient {
  Tensor weight;  // [n, d]: of a tile, by the normalised weights; from Head::gradient, by the weights
  Tensor bias{};  // [n, 1]; undefined without biases
};

class ClassTiles {
 public:
  /// Computes in `dtype`, and multiplies rows in `multiplied`, which is `dtype`, or bf16 if the table is kept in bf16.
  /// Each tile has `tile` rows, a multiple of the centres.
  ClassTiles(const ClassTable& table, DType dtype, DType multiplied, bool normalize, std::int64_t tile,
             std::int64_t centres = 1);

  /// Selects the rows of the table that an index [n] names; all rows if it is undefined. `bias`: [n / centres], or
  /// undefined.
  void select(const Tensor& index, const Tensor& bias = {});
  Device& device() const { return table_.weight.device(); }
  /// The type of the computation.
  DType dtype() const { return dtype_; }
  /// The size of an embedding.
  std::int64_t dimension() const { return table_.weight.shape()[1]; }
  /// The number of rows.
  std::int64_t size() const { return size_; }
  std::int64_t classes() const { return size_ / centres_; }
  std::int64_t centres() const { return centres_; }
  std::int64_t tile_size() const { return tile_; }
  std::int64_t tiles() const { return (size_ + tile_ - 1) / tile_; }
  /// The rows begin .. end - 1.
  ClassTile load(std::int64_t begin, std::int64_t end) const;
  ClassTile all() const { return load(0, size_); }
  /// The rows that an index [n] into them names: [n, d], in the type of the computation.
  ClassTile rows_at(const Tensor& rows) const;
  /// Visits every tile in order. On plan, if the work is the rank's own, only the first two and the last are visited;
  /// the others are counted like the second (for_each_tile).
  void for_each(const std::function<void(const ClassTile&)>& body, TileWork work = TileWork::own) const;

 private:
  /// Reads the rows of the tile's selection, in this type, and their norms.
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

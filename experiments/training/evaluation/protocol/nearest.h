// Exact search: the nearest rows of a gallery, which may have tens of millions of them, for each of many probes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "experiments/training/evaluation/protocol/unit_rows.h"
#include "framework/tensors/tensor.h"

namespace heddle {

/// Rows of length 1 in the memory of a device, in blocks, so that no allocation is large and none is copied.
class RowTable {
 public:
  /// Allocates `rows` rows, which `append` fills.
  RowTable(Device& device, std::int64_t rows, std::int64_t dimension);

  /// Appends rows, scaled as scale_to_unit does. Error if there are more than the table holds.
  void append(std::span<const float> values);

  /// The number of rows that it holds once it is full.
  std::int64_t capacity() const { return capacity_; }
  /// The number of rows that were appended.
  std::int64_t rows() const { return rows_; }
  std::int64_t dimension() const { return dimension_; }
  Device& device() const { return device_; }

  static constexpr std::int64_t block_rows = 65'536;
  /// Block i: the rows from i * block_rows on.
  const std::vector<Tensor>& blocks() const { return blocks_; }
  /// Row-major rows begin .. end-1 of one block, in place where the host can read the device's memory, otherwise copied
  /// to `buffer`.
  std::span<const float> on_host(std::int64_t begin, std::int64_t end, std::vector<float>& buffer) const;

 private:
  Tensor rows_of_block(std::int64_t begin, std::int64_t end) const;

  Device& device_;
  std::int64_t dimension_;
  std::int64_t capacity_;
  std::int64_t rows_ = 0;
  std::vector<Tensor> blocks_;
};

struct Neighbour {
  std::int64_t group = 0;
  std::int64_t row = 0;  // the group's nearest
  double cosine = 0;
};
using Neighbours = std::vector<Neighbour>;

/// For each probe the `count` nearest groups of rows, the nearest first; equally near ones are in the order of their
/// rows. Group i has the rows starts[i] .. starts[i + 1] - 1; without `starts` every row is a group. Rows without
/// direction are near to nothing.
///
/// Cosines are computed tile by tile as f32 products on the gallery's device, and each probe keeps a few more
/// candidates than it needs. Their cosines are then computed without rounding errors. Where the products' largest
/// possible error could have hidden a nearer row, as it can among many equal rows, the whole gallery is compared again
/// in f64. Therefore the result does not depend on the device, its threads or the tiles. Besides the gallery this takes
/// the probes twice, and a few MiB. The table is full.
std::vector<Neighbours> nearest_rows(const RowTable& gallery, std::span<const std::int64_t> starts,
                                     const UnitRows& probes, std::int64_t count);

/// The memory of such a search and of its gallery, on a device without data.
void plan_nearest_rows(Device& device, std::int64_t gallery, std::int64_t probes, std::int64_t dimension);

}  // namespace heddle

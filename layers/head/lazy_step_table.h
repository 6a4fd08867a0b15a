// The steps that rows outside a head's sample have deferred, as products of maps (framework/scalars/sgd_map.h) on the
// device.
#pragma once

#include <array>
#include <cstdint>

#include "framework/kernels/class_rows.h"
#include "framework/scalars/sgd_map.h"

namespace heddle {

class LazyStepTable {
 public:
  /// The number of steps that the table holds. When it is full, all rows take the steps that they have missed, which
  /// costs as much as one dense step, and the table starts again: it does not grow during training.
  static constexpr std::int64_t capacity = std::int64_t{1} << 14;
  static constexpr std::int64_t bytes = 2 * capacity * static_cast<std::int64_t>(sizeof(SgdMap));

  /// Allocates the table on the device, in its current category.
  explicit LazyStepTable(Device& device);

  const LazySteps& steps() const { return steps_; }
  bool is_full() const { return steps_.count == capacity; }
  /// Appends a step, up to the capacity.
  void add(const SgdMap& map);
  void clear() { steps_.count = 0; }

 private:
  LazySteps steps_;
  /// For each power of two of steps, the last product that has no partner yet.
  std::array<SgdMap, 15> waiting_{};
};

}  // namespace heddle

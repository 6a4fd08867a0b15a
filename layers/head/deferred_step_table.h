// The steps that rows outside a head's sample have deferred, as products of maps (framework/scalars/sgd_map.h) on the
// device.
#pragma once

#include <array>
#include <cstdint>

#include "framework/kernels/class_rows.h"
#include "framework/scalars/sgd_map.h"

namespace heddle {

class DeferredStepTable {
 public:
  /// The largest number of steps that the table holds. When it is full, all rows catch up, which costs as much as one
  /// dense step, and the table starts again: it does not grow during training.
  static constexpr std::int64_t max_steps = std::int64_t{1} << 14;
  static constexpr std::int64_t bytes = 2 * max_steps * static_cast<std::int64_t>(sizeof(SgdMap));

  /// Allocates the table on the device, in its current category.
  explicit DeferredStepTable(Device& device);

  const DeferredSteps& steps() const { return steps_; }
  bool is_full() const { return steps_.count == max_steps; }
  /// Appends a step; at most max_steps.
  void add(const SgdMap& map);
  void clear() { steps_.count = 0; }

 private:
  DeferredSteps steps_;
  /// For each power of two of steps, the last product that has no partner yet.
  std::array<SgdMap, 15> unpaired_{};
};

}  // namespace heddle

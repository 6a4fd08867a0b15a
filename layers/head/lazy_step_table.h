// The steps that rows outside a head's sample have put off, as products of maps (framework/scalars/sgd_map.h) on the
// device.
#pragma once

#include <array>
#include <cstdint>

#include "framework/kernels/class_rows.h"
#include "framework/scalars/sgd_map.h"

namespace heddle {

class LazyStepTable {
 public:
  /// So many steps fit. All rows then take what they lack, which costs one of so many steps as much as a dense one, and
  /// the table begins anew: it does not grow with the training.
  static constexpr std::int64_t capacity = std::int64_t{1} << 14;
  static constexpr std::int64_t bytes = 2 * capacity * static_cast<std::int64_t>(sizeof(SgdMap));

  /// On the device, in its current category.
  explicit LazyStepTable(Device& device);

  const LazySteps& steps() const { return steps_; }
  bool is_full() const { return steps_.count == capacity; }
  /// One more; not past the capacity.
  void add(const SgdMap& map);
  void clear() { steps_.count = 0; }

 private:
  LazySteps steps_;
  /// Of each level, powers of two of steps, the last product that waits for its neighbour.
  std::array<SgdMap, 15> waiting_{};
};

}  // namespace heddle

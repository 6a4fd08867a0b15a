// An sgd step with a gradient of zero (decay and velocity alone) is a linear map of (weight, velocity), the same for
// all weights. A weight that has deferred such steps catches up with them by the product of their maps. Products of
// stretches come from a table of those over powers of two of steps. Dividing products over all steps by each other
// would not do: they soon underflow.
#pragma once

#include <cstdint>

#include "framework/host_device.h"
#include "framework/scalars/scalar.h"

namespace heddle {

/// weight' = ww * weight + wv * velocity; velocity' = vw * weight + vv * velocity.
struct SgdMap {
  double ww = 1;
  double wv = 0;
  double vw = 0;
  double vv = 1;

  /// What `next` makes of what this one gives.
  HEDDLE_HOST_DEVICE SgdMap then(const SgdMap& next) const {
    return {next.ww * ww + next.wv * vw, next.ww * wv + next.wv * vv, next.vw * ww + next.vv * vw,
            next.vw * wv + next.vv * vv};
  }
};

/// The map of a step of weights of type T, in its constants.
template <class T>
SgdMap sgd_map(const SgdStep& step) {
  const auto in_type = [](double value) { return static_cast<double>(static_cast<T>(value)); };
  const SgdUpdate<double> update(SgdStep{.learning_rate = in_type(step.learning_rate),
                                         .momentum = in_type(step.momentum),
                                         .weight_decay = in_type(step.weight_decay),
                                         .nesterov = step.nesterov});
  SgdMap map;
  double velocity = 0;
  map.ww = update(0, 1, velocity);
  map.vw = velocity;
  velocity = 1;
  map.wv = update(0, 0, velocity);
  map.vv = velocity;
  return map;
}

/// Where a table holds the product of the `length` steps from `begin` on; length: a power of two that divides `begin`.
/// The places of n steps lie below 2 n.
HEDDLE_HOST_DEVICE inline std::int64_t place_of(std::int64_t begin, std::int64_t length) {
  return 2 * begin + length - 1;
}

/// The product of the maps of steps begin .. end - 1, of the fewest of the table's: at most 2 log2(end).
HEDDLE_HOST_DEVICE inline SgdMap product_of(const SgdMap* table, std::int64_t begin, std::int64_t end) {
  SgdMap product;
  while (begin < end) {
    std::int64_t length = 1;
    while (begin % (2 * length) == 0 && begin + 2 * length <= end) length *= 2;
    product = product.then(table[place_of(begin, length)]);
    begin += length;
  }
  return product;
}

}  // namespace heddle

#include "layers/head/deferred_step_table.h"

#include <span>

#include "framework/error.h"
#include "framework/tensors/device.h"

namespace heddle {

DeferredStepTable::DeferredStepTable(Device& device) {
  steps_.maps = Tensor::empty(device, {2 * max_steps, 4}, DType::f64);
}

void DeferredStepTable::add(const SgdMap& map) {
  if (is_full()) fail("deferred steps: expected at most {}", max_steps);
  const std::int64_t end = ++steps_.count;
  SgdMap product = map;
  std::int64_t length = 1;
  for (SgdMap& before : unpaired_) {
    const std::int64_t place = place_of(end - length, length);
    steps_.maps.rows(place, place + 1).load_bytes(std::as_bytes(std::span(&product, 1)));
    if (end / length % 2 == 1) {
      before = product;
      return;
    }
    product = before.then(product);
    length *= 2;
  }
}

}  // namespace heddle

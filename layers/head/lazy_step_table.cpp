#include "layers/head/lazy_step_table.h"

#include <span>

#include "framework/error.h"
#include "framework/tensors/device.h"

namespace heddle {

LazyStepTable::LazyStepTable(Device& device) {
  steps_.maps = Tensor::empty(device, {2 * capacity, 4}, DType::f64);
}

void LazyStepTable::add(const SgdMap& map) {
  if (is_full()) fail("lazy steps: expected at most {}", capacity);
  const std::int64_t end = ++steps_.count;
  SgdMap product = map;
  std::int64_t length = 1;
  for (SgdMap& before : waiting_) {
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

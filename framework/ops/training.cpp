#include "framework/ops/training.h"

#include "framework/ops/checks.h"
#include "framework/tensors/device.h"

namespace heddle {

Variable dropout(const Variable& x, double probability, const DrawKey& key, const DrawWindow& window) {
  check_floating("dropout", x.value());
  if (!(probability >= 0 && probability < 1))
    fail<InputError>("dropout: expected a probability in [0, 1), got {}", probability);
  if (probability == 0) return x;
  const auto thinned = [=](const Tensor& from) {
    Tensor to = Tensor::empty_like(from);
    from.device().backend().training().dropout(from, key, window, probability, to);
    return to;
  };
  return record(thinned(x.value()), {x}, [thinned](const Tensor& dy, Wanted) { return Gradients{thinned(dy)}; });
}

}  // namespace heddle

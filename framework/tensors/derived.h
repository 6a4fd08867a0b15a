// Something that is derived from a tensor's elements and kept with them as long as they live: a weight in a kernel's
// own layout, or in a narrower type. It follows the elements' changes, and is made when it is asked for.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>

#include "framework/tensors/tensor.h"

namespace heddle {

/// Bytes derived from x, u8[bytes] in Category::workspace. `make` fills them where they are new or the elements have
/// changed since. `what` tells apart what is derived from the same view of a storage; of many things the latest are
/// kept.
Tensor derived_from(const Tensor& x, std::initializer_list<std::int64_t> what, std::int64_t bytes,
                    const std::function<void(Tensor&)>& make);

}  // namespace heddle

// Data that are derived from a tensor's elements and cached with its storage, such as a weight in a kernel's own layout
// or in a narrower type. They are computed on first use, and again once the elements have changed.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>

#include "framework/tensors/tensor.h"

namespace heddle {

/// The bytes derived from x, u8[bytes] in Category::workspace. `make` fills them if they are new or the elements have
/// changed since. `what` distinguishes data that are derived from the same view of a storage. If there are many, only
/// the latest are kept.
Tensor derived_from(const Tensor& x, std::initializer_list<std::int64_t> what, std::int64_t bytes,
                    const std::function<void(Tensor&)>& make);

}  // namespace heddle

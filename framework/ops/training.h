// Operations that only training has.
#pragma once

#include "framework/autograd/autograd.h"
#include "framework/scalars/draw.h"

namespace heddle {

/// Zeroes each element with `probability` and scales the others by 1 / (1 - probability). `window` says where
/// x lies in the whole activation (a number says where it begins), so the mask is the same however the batch and the
/// channels are cut.
Variable dropout(const Variable& x, double probability, const DrawKey& key, const DrawWindow& window);

}  // namespace heddle

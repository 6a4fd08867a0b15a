// Random fills of one rank's part of a tensor: every element is the draw of its index in the whole tensor, so the parts
// of any number of ranks make the tensor that one rank would hold.
#pragma once

#include <span>

#include "framework/kernels/training.h"
#include "framework/shard_range.h"
#include "framework/tensor.h"

namespace heddle {

/// The window of a box of a whole tensor; `box` gives the stretch of each dimension. Dimensions may be cut in two
/// places: the leading one (with those after it down to the first of which the box has more than one element) and one
/// more. InputError if the box is cut more often or does not lie within.
DrawWindow window_of(const Shape& whole, std::span<const ShardRange> box);

/// `part` is the box of the whole tensor, cut in any number of dimensions. InputError if their sizes differ.
void fill_normal(Tensor& part, const Shape& whole, std::span<const ShardRange> box, const DrawKey& key, double mean,
                 double deviation);
void fill_uniform(Tensor& part, const Shape& whole, std::span<const ShardRange> box, const DrawKey& key, double low,
                  double high);

}  // namespace heddle

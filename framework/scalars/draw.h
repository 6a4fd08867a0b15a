// The parameters of an element's random draw.
#pragma once

#include <cstdint>
#include <limits>

#include "framework/scalars/random.h"

namespace heddle {

/// Names one stream of random numbers; an element's draw depends on it and on the element's global index only.
struct DrawKey {
  RandomKey key;
  Purpose purpose = Purpose::initial_weights;
  std::uint32_t step = 0;
  std::uint32_t layer = 0;  // the number of the parameter or dropout layer
};

/// Where the elements of a block lie in the whole tensor: in runs of `run` neighbours, each run `stride` elements after
/// the one before. Element i of the block is global element first + i / run * stride + i % run.
struct DrawWindow {
  /// One run: all of the block follows its first element.
  DrawWindow(std::int64_t first_element) : first(first_element) {}  // NOLINT(google-explicit-constructor)
  DrawWindow(std::int64_t first_element, std::int64_t run_length, std::int64_t run_stride)
      : first(first_element), run(run_length), stride(run_stride) {}
  bool operator==(const DrawWindow&) const = default;

  std::int64_t first;
  std::int64_t run = std::numeric_limits<std::int64_t>::max();
  std::int64_t stride = 0;
};

}  // namespace heddle

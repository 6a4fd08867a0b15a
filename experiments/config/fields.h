// Integers of an experiment, found by their dotted paths.
#pragma once

#include <cstdint>
#include <string_view>

#include "framework/description/describe.h"

namespace heddle {

struct IntegerField {
  std::int64_t value = 0;
  /// The values that it may have, both ends included.
  std::int64_t min = 0;
  std::int64_t max = 0;
};

/// The field at a path such as `head.classes`, or `model.layers.0.out` in a list, of what the described struct holds.
/// InputError if there is none, with the nearest name, or if it holds no integer.
IntegerField integer_field(const Describer::Body& root, std::string_view dotted);

}  // namespace heddle

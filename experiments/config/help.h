// `heddle help [dotted.path]`: explains an object or a field of the experiment from its description.
#pragma once

#include <string>
#include <string_view>

#include "framework/description/describe.h"

namespace heddle {

/// Text of at most 100 columns. The path may name a field, an object, a list's elements and, last, an alternative:
/// `train.optimizer.adamw`. An empty path shows the root. Throws InputError with the nearest name if there is no such
/// thing.
std::string help_text(const Describer::Body& root, std::string_view dotted_path);

}  // namespace heddle

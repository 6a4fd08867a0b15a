// The JSON Schema (draft 2020-12) of an experiment file, for editors: completion, ranges, defaults and help as one
// types.
#pragma once

#include <string>
#include <string_view>

#include "framework/description/describe.h"

namespace heddle {

/// Of a file whose root `root` describes; "$schema" and "variants" are added. `title` heads it.
std::string schema_text(const Describer::Body& root, std::string_view title);

}  // namespace heddle

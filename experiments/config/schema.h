// The JSON Schema (draft 2020-12) of an experiment file: editors use it for completion, ranges, defaults and help.
#pragma once

#include <string>
#include <string_view>

#include "framework/description/describe.h"

namespace heddle {

/// The schema of a file whose root `root` describes, with "$schema" and "variants" added. `title` heads it.
std::string schema_text(const Describer::Body& root, std::string_view title);

}  // namespace heddle

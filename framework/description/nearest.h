// Suggestions for misspelt names.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace heddle {

/// The name closest to `name`; empty if none is close.
std::string nearest(std::string_view name, std::span<const std::string> names);

}  // namespace heddle

// Suggestions for misspelt names.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace heddle {

/// The name closest to `name`, if any is close.
std::optional<std::string> nearest(std::string_view name, std::span<const std::string> names);

}  // namespace heddle

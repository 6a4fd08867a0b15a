// What someone who misspelt a name may have meant.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace heddle {

/// The name most like `name`, or nothing if none is near.
std::string nearest(std::string_view name, std::span<const std::string> names);

}  // namespace heddle

// A file that a command writes at its end, checked at its beginning.
#pragma once

#include <filesystem>

namespace heddle {

/// InputError if the target is there and may not be replaced, or never can be.
void check_target(const std::filesystem::path& target, bool replace);

}  // namespace heddle

// Text files that are read line by line, so that their size does not matter.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string_view>

namespace heddle {

/// Calls `take` with each line of a file and the newline at its end, which the last line may lack. InputError if the
/// file cannot be read, or has a line of more than `limit` bytes.
void for_each_line(const std::filesystem::path& path, std::size_t limit,
                   const std::function<void(std::string_view line)>& take);

}  // namespace heddle

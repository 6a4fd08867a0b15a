// Text files that are read line by line, so that their size does not matter.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string_view>

namespace heddle {

/// Calls `take` with each line of a file, without its newline. Not whole are a last line that has no newline, and the
/// first `limit` bytes of a line that is longer. InputError if the file cannot be read.
void for_each_line(const std::filesystem::path& path, std::size_t limit,
                   const std::function<void(std::string_view line, bool is_whole)>& take);

}  // namespace heddle

// Files that a test writes again and again.
#pragma once

#include <filesystem>
#include <fstream>
#include <string_view>

namespace heddle::test {

/// Writes a file in place of the old one, which is removed first: ext4 waits for the disk when a file is truncated and
/// written again.
inline void rewrite(const std::filesystem::path& path, std::string_view bytes) {
  std::filesystem::remove(path);
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace heddle::test

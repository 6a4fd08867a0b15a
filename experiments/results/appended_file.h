// A file that grows line by line during a run, and survives a disk that is full for a while.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "framework/files/atomic_file.h"

namespace heddle {

class AppendedFile {
 public:
  /// InputError or DiskError if the file cannot be opened.
  explicit AppendedFile(const std::filesystem::path& path) : file_(FileDescriptor::open_for_appending(path)) {}

  /// Hands the text to the system at once. What the disk does not take stays in memory, and is tried again with the
  /// next text. Returns the reason, once.
  std::optional<std::string> append(std::string_view text);
  /// Writes what is still in memory. DiskError if the disk does not take it.
  void flush();

 private:
  FileDescriptor file_;
  std::string pending_;
  bool has_told_ = false;
};

}  // namespace heddle

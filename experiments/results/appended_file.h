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
  /// Appends to the file, which is made with its folder if it is absent; `text` comes first. On a full disk, that is
  /// tried again with the next text. InputError if the file cannot be opened for another reason.
  explicit AppendedFile(std::filesystem::path path, std::string text = {});

  /// Hands the text to the system at once. What the disk does not take stays in memory, and is tried again with the
  /// next text. Returns the reason, once.
  std::optional<std::string> append(std::string_view text);
  /// Writes what is still in memory. DiskError if the disk does not take it.
  void flush();
  bool is_flushed() const { return file_ && pending_.empty(); }

 private:
  std::filesystem::path path_;
  std::optional<FileDescriptor> file_;  // none as long as the disk is full
  std::string pending_;
  bool has_told_ = false;
};

}  // namespace heddle

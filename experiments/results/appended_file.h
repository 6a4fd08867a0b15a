// A file that grows line by line during a run, and survives a disk that is full for a while.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "framework/files/atomic_file.h"

namespace heddle {

class AppendedFile {
 public:
  /// Appends to what is there; the file is made with its folder if it is absent. On a full disk, that is tried again
  /// with the next text. InputError if the file cannot be opened for another reason.
  explicit AppendedFile(std::filesystem::path path) : AppendedFile(std::move(path), {}, false) {}
  /// A file that begins with this text; one that is there is replaced.
  AppendedFile(std::filesystem::path path, std::string text) : AppendedFile(std::move(path), std::move(text), true) {}

  /// Hands the text to the system at once. What the disk does not take stays in memory, and is tried again with the
  /// next text. Returns why the disk did not take it, but only once until everything is written.
  std::optional<std::string> append(std::string_view text);
  /// Writes what is still in memory. DiskError if the disk does not take it.
  void flush();
  bool is_flushed() const { return file_ && pending_.empty(); }

 private:
  AppendedFile(std::filesystem::path path, std::string text, bool replaces);

  std::filesystem::path path_;
  bool replaces_;
  std::optional<FileDescriptor> file_;  // none as long as the disk is full
  std::string pending_;
  bool has_reported_ = false;  // whether a failure was returned since everything was written
};

}  // namespace heddle

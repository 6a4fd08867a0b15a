// Text files of any size, read line by line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "framework/files/atomic_file.h"

namespace heddle {

/// Reads a file in pieces of 1 MiB.
class LineReader {
 public:
  /// InputError if the file cannot be read.
  LineReader(const std::filesystem::path& path, std::size_t max_size);

  /// Advances to the next line; false at the end of the file.
  bool next();
  /// The line without its newline, valid until the next call of `next`; of a line of more than `max_size` bytes, the
  /// first `max_size`.
  std::string_view line() const { return line_; }
  bool is_too_long() const { return is_too_long_; }
  /// Whether this is all of the line, and it ends with a newline, which the last one may lack.
  bool is_whole() const { return has_newline_ && !is_too_long_; }
  const std::filesystem::path& path() const { return file_.path(); }

 private:
  bool read_piece();
  void skip_rest();

  FileDescriptor file_;
  std::size_t max_size_;
  std::uint64_t size_;
  std::uint64_t position_ = 0;  // where the unread part of the file begins
  std::string buffer_;
  std::size_t at_ = 0;  // where the unread part of the buffer begins
  std::string_view line_;
  bool is_too_long_ = false;
  bool has_newline_ = true;
};

}  // namespace heddle

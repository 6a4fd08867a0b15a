// The lines of a text file that nobody has checked, one after the other, in columns. The file is read in pieces: a list
// may be longer than memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/error.h"
#include "framework/files/atomic_file.h"

namespace heddle {

class ListReader {
 public:
  /// InputError if the file cannot be read.
  explicit ListReader(const std::filesystem::path& path);

  /// Goes on to the next line that is not blank; false at the end of the file. InputError if the line is no text.
  bool next();
  /// The line without its end, and its columns: separated by tabs, or in a line without any by blanks. They last until
  /// the next line. At most one more than a list may have are given.
  std::string_view line() const { return line_; }
  const std::vector<std::string_view>& columns() const { return columns_; }
  /// Counts from 1.
  std::int64_t number() const { return number_; }
  const std::filesystem::path& path() const { return file_.path(); }

  /// InputError with the file and the line.
  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    refuse_line(number_, fmt::format(format, std::forward<Args>(args)...));
  }
  [[noreturn]] void refuse_line(std::int64_t line, const std::string& reason) const;

  static constexpr std::size_t most_columns = 4;

 private:
  bool read_line();
  void split();

  FileDescriptor file_;
  std::uint64_t size_ = 0;
  std::uint64_t position_ = 0;  // of what has not been read
  std::string buffer_;
  std::size_t at_ = 0;  // in the buffer
  std::string_view line_;
  std::vector<std::string_view> columns_;
  std::int64_t number_ = 0;
};

/// An integer of at most ten digits, and no less than `least`; nothing if the text is not just that.
std::optional<std::int64_t> integer_in(std::string_view text, std::int64_t least);

}  // namespace heddle

// Reads text files of any length line by line. Everything that is wrong with a file is an InputError that names the
// file and the line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "framework/error.h"
#include "framework/files/line_reader.h"

namespace heddle {

/// A list may be larger than memory. A line may end with CR LF, and a byte order mark at the beginning is skipped.
class TextLines {
 public:
  /// The longest line that is accepted, in bytes without its end.
  static constexpr std::size_t max_line = 65'536;

  /// InputError if the file cannot be read.
  explicit TextLines(const std::filesystem::path& path) : lines_(path, max_line) {}

  /// Advances to the next line; false at the end of the file. InputError if the line is longer than `max_line` or
  /// contains a zero byte.
  bool next();
  /// The line without its end, valid until the next call of `next`.
  std::string_view line() const { return line_; }
  /// The number of the line, from 1.
  std::int64_t number() const { return number_; }
  const std::filesystem::path& path() const { return lines_.path(); }

  /// Throws an InputError that names the file and the line.
  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    refuse_line(number_, fmt::format(format, std::forward<Args>(args)...));
  }
  [[noreturn]] void refuse_line(std::int64_t line, const std::string& reason) const;

 private:
  LineReader lines_;
  std::string_view line_;
  std::int64_t number_ = 0;
};

/// Calls `use(number, line)` for every line.
void for_each_line(const std::string& path, const std::function<void(std::int64_t, std::string_view)>& use);

/// Reads a decimal number without a sign; empty if the text is not one or has more than 18 digits.
std::optional<std::int64_t> decimal(std::string_view text);

}  // namespace heddle

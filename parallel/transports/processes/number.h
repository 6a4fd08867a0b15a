// Reads the numbers in environment variables.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>

namespace heddle {

/// Nothing unless the whole text is a number of this type.
template <class T>
std::optional<T> number_of(std::string_view text) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  if (read.ec != std::errc{} || read.ptr != end) return {};
  return value;
}

}  // namespace heddle

// Text files of any length, line by line. Whatever is wrong with one is an InputError that names the file and the line.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace heddle {

/// A line may end with CR LF; a byte order mark at the beginning is passed over.
inline constexpr std::size_t longest_line = 65'536;

/// Calls `use(number, line)` for every line, counted from 1, without its end. InputError if the file cannot be read,
/// has a longer line, or holds a zero byte, as no text does.
void for_each_line(const std::string& path, const std::function<void(std::int64_t, std::string_view)>& use);

/// The text as a decimal number without a sign; -1 if it is none or has more than 18 digits.
std::int64_t decimal(std::string_view text);

}  // namespace heddle

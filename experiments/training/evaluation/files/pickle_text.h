// How protocol 0 of Python's pickles writes strings into lines of text.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace heddle {

/// Python 2's repr of a string, in single or double quotes with escapes: its bytes.
std::vector<std::uint8_t> unescaped_string(std::string_view line);
/// Python's raw-unicode-escape: each byte is the character of that number, except in \uXXXX and \UXXXXXXXX. As UTF-8.
std::vector<std::uint8_t> unescaped_unicode(std::string_view line);
/// `12L`, as Python 2 wrote a long integer: `12`.
std::string_view without_long_suffix(std::string_view line);

}  // namespace heddle

// Decodes the strings that protocol 0 of Python's pickles writes into lines of text.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace heddle {

/// The bytes of a string in Python 2's repr, in single or double quotes with escapes.
std::vector<std::uint8_t> unescaped_string(std::string_view line);
/// The UTF-8 of a text in Python's raw-unicode-escape, in which each byte is the character of that number, except in
/// \uXXXX and \UXXXXXXXX.
std::vector<std::uint8_t> unescaped_unicode(std::string_view line);
/// The number without the suffix that Python 2 gives long integers: `12` for `12L`.
std::string_view without_long_suffix(std::string_view line);

}  // namespace heddle

// Text of unknown origin as it may stand in a message, in a file of JSON or on a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace heddle {

/// The text without control characters and broken UTF-8, so that hostile input cannot send escape sequences to a
/// terminal.
std::string printable(std::string_view text);
/// The same, line by line: the line ends stay.
std::string printable_lines(std::string_view text);
/// A name as a line of a file: control characters and bytes that are not UTF-8 become \xNN, and \ becomes \\.
std::string escaped_line(std::string_view name);
/// The name of such a line.
std::string unescaped_line(std::string_view line);
/// The printable text, cut to about `most` bytes.
std::string shortened(std::string_view text, std::size_t most = 60);
/// The text as a JSON string, quotes included; bytes that are not UTF-8 become U+FFFD.
std::string json_string(std::string_view text);
/// The text in UTF-8: other bytes become U+FFFD.
std::string valid_utf8(std::string_view text);
/// A printable JSON string, cut to about 60 bytes.
std::string in_quotes(std::string_view text);

}  // namespace heddle

// Text for terminals, shells and tables: widths in characters of UTF-8, never in bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace heddle {

/// The number of code points; those that a terminal draws two cells wide count as one.
std::size_t width_of(std::string_view text);
/// At most `width` characters: the middle is replaced by `..`, because names differ at their ends.
std::string shorten(std::string_view text, std::size_t width);
/// Lines of at most `width` characters, broken at spaces where possible; all but the first are indented. Ends with a
/// newline.
std::string wrap(std::string_view text, std::size_t width, std::size_t indent);
/// "1 image", "2 images".
std::string counted(std::int64_t number, std::string_view one, std::string_view many);
/// A word of a shell command: in single quotes where the shell would read its characters otherwise.
std::string shell_word(std::string_view text);
/// A field of a .csv: in double quotes where its characters would end the field (RFC 4180).
std::string csv_field(std::string_view text);
/// Without their newlines.
std::vector<std::string> lines_of(std::string_view text);

}  // namespace heddle

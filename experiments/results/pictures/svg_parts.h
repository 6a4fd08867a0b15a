// What all SVG pictures consist of.
#pragma once

#include <string>
#include <string_view>

namespace heddle {

/// About the width of a character of a text, in pixels.
inline constexpr double svg_character = 6.6;

/// The text, escaped. `attributes` begin with a space each.
std::string svg_text(double x, double y, std::string_view text, std::string_view attributes = "");

/// The beginning of a picture that is a file of its own: a white ground and the title, which begins at x = `left` and
/// ends 20 pixels below the top. The picture ends with `</svg>`.
std::string begin_svg_file(double width, double height, std::string_view title, double left);

}  // namespace heddle

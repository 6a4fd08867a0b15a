// Escapes texts for HTML pages and SVG pictures.
#pragma once

#include <string>
#include <string_view>

namespace heddle {

/// The printable text as HTML or XML, also within an attribute's quotes.
std::string html_text(std::string_view text);

}  // namespace heddle

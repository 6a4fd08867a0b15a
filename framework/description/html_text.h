// Texts within HTML pages.
#pragma once

#include <string>
#include <string_view>

namespace heddle {

/// The printable text as HTML, also within an attribute's quotes.
std::string html_text(std::string_view text);

}  // namespace heddle

// What the HTML pages of results have in common. Each page is one file that loads nothing.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "framework/description/html_text.h"

namespace heddle {

/// Everything before the body's content: the title, and a style for light and dark screens from 320 pixels on, to which
/// `style` is added.
std::string html_head(std::string_view title, std::string_view style);
inline constexpr std::string_view html_end = "</main></body></html>\n";

/// `data:TYPE;base64,...`
std::string data_url(std::string_view type, std::span<const std::uint8_t> bytes);

}  // namespace heddle

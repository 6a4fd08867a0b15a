// HTML pages in one file: styles and scripts inside, light and dark by the reader's setting, nothing from the network.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "framework/description/html_text.h"

namespace heddle {

/// A page with the content `body` in HTML and the style `style` in CSS, whose scripts run in this order once the body
/// is there. The page forbids the browser to load anything else.
std::string html_page(std::string_view title, std::string_view style, std::string_view body,
                      std::initializer_list<std::string_view> scripts = {});

/// The same page before and after its body, for a body that is written in pieces.
std::string html_begin(std::string_view title, std::string_view style);
std::string html_end(std::initializer_list<std::string_view> scripts = {});

/// `data:TYPE;base64,...`: a picture, for example, within the page.
std::string data_url(std::string_view type, std::span<const std::uint8_t> bytes);

}  // namespace heddle

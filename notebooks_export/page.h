// HTML pages in one file: styles and scripts inside, light and dark by the reader's setting, nothing from the network.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "framework/description/html_text.h"

namespace heddle {

/// A page with the style `pages/page.css`. `body` is HTML; `scripts` are names such as `pages/timeline.js` of embedded
/// files, which run in this order once the body is there. The page forbids the browser to load anything else.
std::string html_page(std::string_view title, std::string_view body, std::initializer_list<std::string_view> scripts);

}  // namespace heddle

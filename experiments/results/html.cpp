#include "experiments/results/html.h"

#include <algorithm>

#include <fmt/core.h>

namespace heddle {

std::string html_head(std::string_view title, std::string_view style) {
  constexpr std::string_view common = R"(
:root{color-scheme:light dark;--paper:#fff;--ink:#1b1b1b;--faint:#666;--line:#ccc}
@media(prefers-color-scheme:dark){:root{--paper:#161616;--ink:#e8e8e8;--faint:#a0a0a0;--line:#444}}
body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.45 system-ui,sans-serif}
main{max-width:1200px;margin:0 auto;padding:16px}
h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}
p{color:var(--faint)}
code{font:0.9em ui-monospace,monospace;overflow-wrap:anywhere}
.wide{overflow-x:auto}
table{border-collapse:collapse}
th,td{padding:4px 10px;border-bottom:1px solid var(--line);text-align:right;vertical-align:top}
th:first-child,td:first-child{text-align:left}
)";
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
      "<link rel=\"icon\" href=\"data:,\">\n<title>{}</title>\n<style>{}{}</style></head>\n<body><main>\n<h1>{}</h1>\n",
      html_text(title), common, style, html_text(title));
}

std::string data_url(std::string_view type, std::span<const std::uint8_t> bytes) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string url = fmt::format("data:{};base64,", type);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k) group = group << 8 | (k < count ? bytes[i + k] : 0U);
    for (std::size_t k = 0; k < 4; ++k) url += k <= count ? digits[group >> (18 - 6 * k) & 63U] : '=';
  }
  return url;
}

}  // namespace heddle

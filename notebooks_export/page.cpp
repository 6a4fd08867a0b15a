#include "notebooks_export/page.h"

#include <algorithm>

#include <fmt/core.h>

namespace heddle {

std::string html_page(std::string_view title, std::string_view style, std::string_view body,
                      std::initializer_list<std::string_view> scripts) {
  return fmt::format("{}{}\n{}", html_begin(title, style), body, html_end(scripts));
}

std::string html_begin(std::string_view title, std::string_view style) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; "
      "style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n"
      "<link rel=\"icon\" href=\"data:,\">\n<title>{}</title>\n<style>\n{}</style>\n</head>\n<body>\n<main>\n",
      html_text(title), style);
}

std::string html_end(std::initializer_list<std::string_view> scripts) {
  std::string end = "</main>\n";
  for (const std::string_view script : scripts) end += fmt::format("<script>\n{}</script>\n", script);
  return end + "</body>\n</html>\n";
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

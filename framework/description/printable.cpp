#include "framework/description/printable.h"

#include <charconv>
#include <functional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace heddle {
namespace {

std::size_t sequence_length(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const std::size_t length = first < 0x80   ? 1
                             : first < 0xC2 ? 0
                             : first < 0xE0 ? 2
                             : first < 0xF0 ? 3
                             : first < 0xF5 ? 4
                                            : 0;
  if (length > text.size()) return 0;
  // The shortest form of each character only, no surrogates, and nothing above U+10FFFF.
  const auto second = length > 1 ? static_cast<unsigned char>(text[1]) : 0;
  if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) || (first == 0xF0 && second < 0x90) ||
      (first == 0xF4 && second > 0x8F))
    return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) return 0;
  }
  // C1 controls (U+0080 to U+009F) steer terminals too.
  if (first == 0xC2 && static_cast<unsigned char>(text[1]) < 0xA0) return 0;
  return length;
}

/// The text with `replacement(byte)` for each byte that is a control character or not of UTF-8.
std::string with_bytes_replaced(std::string_view text,
                                const std::function<std::string(unsigned char byte)>& replacement) {
  std::string result;
  while (!text.empty()) {
    const auto first = static_cast<unsigned char>(text[0]);
    const std::size_t length = sequence_length(text);
    if (length == 0 || first < 0x20 || first == 0x7F) {
      result += replacement(first);
      text.remove_prefix(1);
    } else {
      result += text.substr(0, length);
      text.remove_prefix(length);
    }
  }
  return result;
}

std::string cut(std::string_view text, std::size_t most) {
  if (text.size() <= most) return std::string(text);
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xC0) == 0x80) --most;
  return std::string(text.substr(0, most)) + "...";
}

}  // namespace

std::string json_string(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string valid_utf8(std::string_view text) {
  return nlohmann::json::parse(json_string(text));
}

std::string printable(std::string_view text) {
  return with_bytes_replaced(text, [](unsigned char) { return std::string("?"); });
}

std::string escaped_line(std::string_view name) {
  std::string doubled;
  for (const char c : name) doubled += c == '\\' ? std::string("\\\\") : std::string(1, c);
  return with_bytes_replaced(doubled, [](unsigned char byte) { return fmt::format("\\x{:02x}", byte); });
}

std::string unescaped_line(std::string_view line) {
  std::string name;
  while (!line.empty()) {
    unsigned byte = 0;
    const bool is_byte = line.size() >= 4 && line.starts_with("\\x") &&
                         std::from_chars(line.data() + 2, line.data() + 4, byte, 16).ptr == line.data() + 4;
    name += is_byte ? static_cast<char>(byte) : line[0];
    line.remove_prefix(is_byte ? 4 : line.starts_with("\\\\") ? 2 : 1);
  }
  return name;
}

std::string printable_lines(std::string_view text) {
  std::string result;
  for (;;) {
    const std::size_t end = text.find('\n');
    result += printable(text.substr(0, end));
    if (end == std::string_view::npos) return result;
    result += '\n';
    text.remove_prefix(end + 1);
  }
}

std::string shortened(std::string_view text, std::size_t most) {
  return printable(cut(text, most));
}

std::string in_quotes(std::string_view text) {
  return printable(json_string(cut(text, 60)));
}

}  // namespace heddle

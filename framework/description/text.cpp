#include "framework/description/text.h"

#include <algorithm>

#include <fmt/core.h>

namespace heddle {

namespace {

bool begins_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U;
}

/// The byte at which character `index` begins; the text's end if there are fewer.
std::size_t byte_of(std::string_view text, std::size_t index) {
  std::size_t seen = 0;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (begins_character(text[i]) && seen++ == index) return i;
  return text.size();
}

}  // namespace

std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), begins_character));
}

std::string shorten(std::string_view text, std::size_t width) {
  constexpr std::string_view mark = "..";
  const std::size_t length = width_of(text);
  if (length <= width) return std::string(text);
  if (width <= mark.size()) return std::string(text.substr(0, byte_of(text, width)));
  const std::size_t kept = width - mark.size();
  const std::size_t front = (kept + 1) / 2;
  return std::string(text.substr(0, byte_of(text, front)))
      .append(mark)
      .append(text.substr(byte_of(text, length - (kept - front))));
}

std::string wrap(std::string_view text, std::size_t width, std::size_t indent) {
  std::string wrapped;
  std::size_t margin = 0;
  for (const std::string& line : lines_of(text)) {
    std::string_view rest = line;
    do {
      std::size_t end = byte_of(rest, width - margin);
      if (end < rest.size()) {
        const std::size_t space = rest.rfind(' ', end);
        if (space != std::string_view::npos && space > 0) end = space;
      }
      wrapped.append(margin, ' ').append(rest.substr(0, end)).append("\n");
      rest.remove_prefix(end);
      rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
      margin = indent;
    } while (!rest.empty());
  }
  return wrapped;
}

std::string counted(std::int64_t number, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", number, number == 1 ? one : many);
}

std::string shell_word(std::string_view text) {
  constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./=:,@%+-";
  if (!text.empty() && text.find_first_not_of(plain) == std::string_view::npos) return std::string(text);
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? "'\\''" : std::string(1, c);
  return word + "'";
}

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string field = "\"";
  for (const char c : text) field += c == '"' ? "\"\"" : std::string(1, c);
  return field + "\"";
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

}  // namespace heddle

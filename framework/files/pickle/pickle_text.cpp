#include "framework/files/pickle/pickle_text.h"

#include <charconv>

#include "framework/description/printable.h"
#include "framework/error.h"

namespace heddle {

namespace {

/// Removes hexadecimal digits from the front of `text` and returns the number that they make.
std::uint32_t take_hexadecimal(std::string_view& text, std::size_t digits) {
  std::uint32_t value = 0;
  const char* const end = text.data() + std::min(digits, text.size());
  const auto [stopped, error] = std::from_chars(text.data(), end, value, 16);
  if (text.size() < digits || error != std::errc() || stopped != end)
    fail<InputError>("expected {} hexadecimal digits, got {}", digits, in_quotes(text.substr(0, digits)));
  text.remove_prefix(digits);
  return value;
}

void add_utf8(std::uint32_t character, std::vector<std::uint8_t>& bytes) {
  const auto add = [&](std::uint32_t byte) { bytes.push_back(static_cast<std::uint8_t>(byte)); };
  if (character > 0x10FFFF) fail<InputError>("U+{:X} is not a character", character);
  if (character < 0x80) return add(character);
  if (character < 0x800) {
    add(0xC0 | (character >> 6));
  } else if (character < 0x10000) {
    add(0xE0 | (character >> 12));
    add(0x80 | ((character >> 6) & 0x3F));
  } else {
    add(0xF0 | (character >> 18));
    add(0x80 | ((character >> 12) & 0x3F));
    add(0x80 | ((character >> 6) & 0x3F));
  }
  add(0x80 | (character & 0x3F));
}

/// Removes an escape, whose backslash was already removed, and returns the byte that it stands for.
std::uint8_t take_escaped(std::string_view& text) {
  if (text.empty()) fail<InputError>("a string ends in a backslash");
  const char kind = text.front();
  text.remove_prefix(1);
  switch (kind) {
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case '\\':
    case '\'':
    case '"':
      return static_cast<std::uint8_t>(kind);
    case 'x':
      return static_cast<std::uint8_t>(take_hexadecimal(text, 2));
    default:
      fail<InputError>("a string has the escape {}, which Python does not write", in_quotes({&kind, 1}));
  }
}

}  // namespace

std::vector<std::uint8_t> unescaped_string(std::string_view line) {
  if (line.size() < 2 || line.front() != line.back() || (line.front() != '\'' && line.front() != '"'))
    fail<InputError>("expected a string in quotes, got {}", in_quotes(line));
  line.remove_prefix(1);
  line.remove_suffix(1);
  std::vector<std::uint8_t> bytes;
  bytes.reserve(line.size());
  while (!line.empty()) {
    const char next = line.front();
    line.remove_prefix(1);
    bytes.push_back(next == '\\' ? take_escaped(line) : static_cast<std::uint8_t>(next));
  }
  return bytes;
}

std::vector<std::uint8_t> unescaped_unicode(std::string_view line) {
  std::vector<std::uint8_t> bytes;
  bytes.reserve(line.size());
  while (!line.empty()) {
    if (line.starts_with("\\u") || line.starts_with("\\U")) {
      const std::size_t digits = line[1] == 'u' ? 4 : 8;
      line.remove_prefix(2);
      add_utf8(take_hexadecimal(line, digits), bytes);
      continue;
    }
    add_utf8(static_cast<unsigned char>(line.front()), bytes);
    line.remove_prefix(1);
  }
  return bytes;
}

std::string_view without_long_suffix(std::string_view line) {
  if (line.ends_with('L')) line.remove_suffix(1);
  return line;
}

}  // namespace heddle

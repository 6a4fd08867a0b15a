#include "experiments/data/files/text_lines.h"

#include <cstddef>

namespace heddle {

void TextLines::refuse_line(std::int64_t line, const std::string& reason) const {
  fail<InputError>("{}: line {}: {}", path().string(), line, reason);
}

bool TextLines::next() {
  constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
  if (!lines_.next()) return false;
  ++number_;
  if (lines_.is_too_long()) refuse("is longer than {} bytes, so this is not a list", max_line);
  line_ = lines_.line();
  if (number_ == 1 && line_.starts_with(byte_order_mark)) line_.remove_prefix(byte_order_mark.size());
  if (line_.ends_with('\r')) line_.remove_suffix(1);
  if (line_.find('\0') != std::string_view::npos) refuse("contains a zero byte, so this is not a text file");
  return true;
}

void for_each_line(const std::string& path, const std::function<void(std::int64_t, std::string_view)>& use) {
  TextLines lines(path);
  while (lines.next()) use(lines.number(), lines.line());
}

std::optional<std::int64_t> decimal(std::string_view text) {
  constexpr std::size_t max_digits = 18;
  if (text.empty() || text.size() > max_digits) return {};
  std::int64_t value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return {};
    value = value * 10 + (c - '0');
  }
  return value;
}

}  // namespace heddle

#include "experiments/data/files/text_lines.h"

#include <algorithm>
#include <cstddef>
#include <span>

namespace heddle {

TextLines::TextLines(const std::filesystem::path& path)
    : file_(FileDescriptor::open_for_reading(path)), size_(file_.size()) {}

void TextLines::refuse_line(std::int64_t line, const std::string& reason) const {
  fail<InputError>("{}: line {}: {}", path().string(), line, reason);
}

/// Appends the next piece of the file to the unread part of the buffer; false at the end of the file.
bool TextLines::read_piece() {
  constexpr std::uint64_t piece = 1 << 20;
  if (position_ == size_) return false;
  buffer_.erase(0, at_);
  at_ = 0;
  const std::size_t kept = buffer_.size();
  const auto more = static_cast<std::size_t>(std::min(piece, size_ - position_));
  buffer_.resize(kept + more);
  file_.read_at(position_, std::as_writable_bytes(std::span(buffer_).subspan(kept)));
  position_ += more;
  return true;
}

bool TextLines::next() {
  constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
  std::size_t length = std::string_view(buffer_).substr(at_).find('\n');
  while (length == std::string_view::npos && buffer_.size() - at_ <= max_line && read_piece())
    length = std::string_view(buffer_).find('\n');
  if (at_ == buffer_.size()) return false;
  ++number_;
  line_ = std::string_view(buffer_).substr(at_, length);
  if (line_.size() > max_line) refuse("is longer than {} bytes, so this is not a list", max_line);
  at_ += line_.size() + (length == std::string_view::npos ? 0 : 1);
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

#include "framework/files/line_reader.h"

#include <algorithm>
#include <span>

namespace heddle {

LineReader::LineReader(const std::filesystem::path& path, std::size_t max_size)
    : file_(FileDescriptor::open_for_reading(path)), max_size_(max_size), size_(file_.size()) {}

/// Appends the next piece of the file to the unread part of the buffer; false at the end of the file.
bool LineReader::read_piece() {
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

/// Skips what follows of a line that was too long to be read to its end.
void LineReader::skip_rest() {
  std::size_t newline = buffer_.find('\n', at_);
  while (newline == std::string::npos) {
    at_ = buffer_.size();
    if (!read_piece()) return;
    newline = buffer_.find('\n');
  }
  at_ = newline + 1;
}

bool LineReader::next() {
  if (is_too_long_ && !has_newline_) skip_rest();
  std::size_t length = std::string_view(buffer_).substr(at_).find('\n');
  while (length == std::string_view::npos && buffer_.size() - at_ <= max_size_ && read_piece())
    length = std::string_view(buffer_).find('\n');
  if (at_ == buffer_.size()) return false;
  const std::string_view all = std::string_view(buffer_).substr(at_, length);
  has_newline_ = length != std::string_view::npos;
  is_too_long_ = all.size() > max_size_;
  line_ = all.substr(0, max_size_);
  at_ += all.size() + (has_newline_ ? 1 : 0);
  return true;
}

}  // namespace heddle

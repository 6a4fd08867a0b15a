#include "experiments/training/evaluation/files/list_reader.h"

#include <algorithm>
#include <charconv>
#include <span>

namespace heddle {

namespace {

constexpr std::size_t bytes_at_once = std::size_t{1} << 20;
constexpr std::size_t longest_line = std::size_t{1} << 16;

}  // namespace

ListReader::ListReader(const std::filesystem::path& path)
    : file_(FileDescriptor::open_for_reading(path)), size_(file_.size()) {}

void ListReader::refuse_line(std::int64_t line, const std::string& reason) const {
  fail<InputError>("{}: line {}: {}", path().string(), line, reason);
}

bool ListReader::next() {
  do {
    if (!read_line()) return false;
    split();
  } while (columns_.empty());
  if (line_.find('\0') != std::string_view::npos) refuse("has a byte 0, so this is not a text");
  return true;
}

bool ListReader::read_line() {
  constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
  std::size_t end = buffer_.find('\n', at_);
  while (end == std::string::npos && position_ < size_) {
    buffer_.erase(0, at_);
    at_ = 0;
    const std::size_t kept = buffer_.size();
    if (kept > longest_line) {
      ++number_;
      refuse("is longer than {} bytes, so this is not a list", longest_line);
    }
    const auto more = static_cast<std::size_t>(std::min<std::uint64_t>(bytes_at_once, size_ - position_));
    buffer_.resize(kept + more);
    file_.read_at(position_, std::as_writable_bytes(std::span(buffer_).subspan(kept)));
    position_ += more;
    end = buffer_.find('\n', kept);
  }
  if (at_ == buffer_.size()) return false;
  line_ = std::string_view(buffer_).substr(at_, std::min(end, buffer_.size()) - at_);
  at_ = std::min(end, buffer_.size() - 1) + 1;
  if (++number_ == 1 && line_.starts_with(byte_order_mark)) line_.remove_prefix(byte_order_mark.size());
  if (line_.ends_with('\r')) line_.remove_suffix(1);
  return true;
}

void ListReader::split() {
  columns_.clear();
  const std::string_view separators = line_.find('\t') == std::string_view::npos ? " " : "\t";
  std::string_view rest = line_;
  while (columns_.size() <= most_columns) {
    rest.remove_prefix(std::min(rest.find_first_not_of(separators), rest.size()));
    if (rest.empty()) return;
    columns_.push_back(rest.substr(0, rest.find_first_of(separators)));
    rest.remove_prefix(columns_.back().size());
  }
}

std::optional<std::int64_t> integer_in(std::string_view text, std::int64_t least) {
  constexpr std::size_t most_digits = 10;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.size() > most_digits || error != std::errc() || end != text.data() + text.size() || value < least) return {};
  return value;
}

}  // namespace heddle

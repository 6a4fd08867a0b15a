#include "experiments/data/files/text_lines.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "framework/error.h"
#include "framework/files/atomic_file.h"

namespace heddle {
namespace {

void use_line(const std::string& path, std::int64_t number, std::string_view line,
              const std::function<void(std::int64_t, std::string_view)>& use) {
  constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
  if (number == 1 && line.starts_with(byte_order_mark)) line.remove_prefix(byte_order_mark.size());
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (line.find('\0') != std::string_view::npos)
    fail<InputError>("{}: line {}: a zero byte: this is no text", path, number);
  use(number, line);
}

}  // namespace

void for_each_line(const std::string& path, const std::function<void(std::int64_t, std::string_view)>& use) {
  const FileDescriptor file = FileDescriptor::open_for_reading(path);
  const std::uint64_t size = file.size();
  std::vector<char> buffer;
  std::size_t kept = 0;  // bytes of a line whose end is still to come
  std::int64_t number = 1;
  for (std::uint64_t at = 0; at < size;) {
    const auto step = static_cast<std::size_t>(std::min<std::uint64_t>(size - at, std::uint64_t{1} << 20));
    buffer.resize(kept + step);
    file.read_at(at, std::as_writable_bytes(std::span(buffer).subspan(kept)));
    at += step;
    const std::string_view text(buffer.data(), buffer.size());
    std::size_t begin = 0;
    for (std::size_t end = text.find('\n', kept); end != std::string_view::npos; end = text.find('\n', begin)) {
      if (end - begin > longest_line) break;
      use_line(path, number++, text.substr(begin, end - begin), use);
      begin = end + 1;
    }
    kept = text.size() - begin;
    if (std::min(text.find('\n', begin), text.size()) - begin > longest_line)
      fail<InputError>("{}: line {}: longer than {} bytes", path, number, longest_line);
    std::copy(buffer.begin() + static_cast<std::ptrdiff_t>(begin), buffer.end(), buffer.begin());
  }
  if (kept > 0) use_line(path, number, std::string_view(buffer.data(), kept), use);
}

std::int64_t decimal(std::string_view text) {
  if (text.empty() || text.size() > 18) return -1;
  std::int64_t value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return -1;
    value = value * 10 + (c - '0');
  }
  return value;
}

}  // namespace heddle

#include "framework/files/lines.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>

#include "framework/error.h"
#include "framework/files/atomic_file.h"

namespace heddle {

void for_each_line(const std::filesystem::path& path, std::size_t limit,
                   const std::function<void(std::string_view line)>& take) {
  constexpr std::uint64_t max_piece = 1 << 16;
  const FileDescriptor file = FileDescriptor::open_for_reading(path);
  const std::uint64_t size = file.size();
  std::string text;  // the lines of the piece that was read last, and the begin of one that is not whole
  for (std::uint64_t position = 0; position < size;) {
    const std::size_t kept = text.size();
    const auto piece = static_cast<std::size_t>(std::min(max_piece, size - position));
    text.resize(kept + piece);
    file.read_at(position, std::as_writable_bytes(std::span(text)).subspan(kept));
    position += piece;
    std::size_t begin = 0;
    for (std::size_t newline = text.find('\n', kept); newline != std::string::npos; newline = text.find('\n', begin)) {
      take(std::string_view(text).substr(begin, newline + 1 - begin));
      begin = newline + 1;
    }
    text.erase(0, begin);
    if (text.size() > limit) fail<InputError>("{}: has a line of more than {} bytes", path.string(), limit);
  }
  if (!text.empty()) take(text);
}

}  // namespace heddle

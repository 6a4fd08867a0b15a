#include "framework/files/lines.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>

#include "framework/files/atomic_file.h"

namespace heddle {

void for_each_line(const std::filesystem::path& path, std::size_t limit,
                   const std::function<void(std::string_view line, bool is_whole)>& take) {
  constexpr std::uint64_t max_piece = 1 << 16;
  const FileDescriptor file = FileDescriptor::open_for_reading(path);
  const std::uint64_t size = file.size();
  std::string piece;
  std::string line;
  bool is_too_long = false;
  for (std::uint64_t position = 0; position < size; position += piece.size()) {
    piece.resize(static_cast<std::size_t>(std::min(max_piece, size - position)));
    file.read_at(position, std::as_writable_bytes(std::span(piece)));
    for (std::size_t begin = 0; begin < piece.size();) {
      const std::size_t newline = std::min(piece.find('\n', begin), piece.size());
      const std::size_t taken = std::min(newline - begin, limit - line.size());
      line.append(piece, begin, taken);
      is_too_long = is_too_long || taken < newline - begin;
      begin = newline + 1;
      if (newline == piece.size()) break;
      take(line, !is_too_long);
      line.clear();
      is_too_long = false;
    }
  }
  if (!line.empty()) take(line, false);
}

}  // namespace heddle

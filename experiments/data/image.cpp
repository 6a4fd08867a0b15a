#include "experiments/data/image.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

#include <fmt/core.h>

#include "experiments/data/codecs/image_codecs.h"
#include "framework/error.h"

namespace heddle {
namespace {

constexpr std::size_t max_file_bytes = std::size_t{1} << 30;
constexpr std::size_t max_header = 4096;

bool begins_with(std::span<const std::uint8_t> bytes, std::string_view magic) {
  return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

/// The first `limit` bytes of a regular file; `file_bytes` receives the size of the whole file.
std::vector<std::uint8_t> read_beginning(const std::string& path, std::size_t limit, std::size_t& file_bytes) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found) fail<InputError>("image \"{}\": no such file", path);
  if (error) fail<InputError>("image \"{}\": {}", path, error.message());
  // Reading a pipe or a device might never end.
  if (!std::filesystem::is_regular_file(status)) fail<InputError>("image \"{}\": not a regular file", path);
  file_bytes = std::filesystem::file_size(path, error);
  if (error) fail<InputError>("image \"{}\": {}", path, error.message());
  if (file_bytes > max_file_bytes)
    fail<InputError>("image \"{}\": {} bytes; at most {} are accepted", path, file_bytes, max_file_bytes);

  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (!file) fail<InputError>("image \"{}\": {}", path, std::generic_category().message(errno));
  std::setvbuf(file.get(), nullptr, _IONBF, 0);
  std::vector<std::uint8_t> bytes(std::min(limit, file_bytes));
  const std::size_t got = std::fread(bytes.data(), 1, bytes.size(), file.get());
  if (std::ferror(file.get()) != 0) fail<InputError>("image \"{}\": cannot be read", path);
  bytes.resize(got);
  return bytes;
}

}  // namespace

void check_image_size(std::int64_t height, std::int64_t width, std::string_view name) {
  if (height < 1 || width < 1) fail<InputError>("image \"{}\": {} x {} pixels", name, height, width);
  if (height > max_image_pixels / width)
    fail<InputError>("image \"{}\": {} x {} pixels; at most {} pixels are accepted", name, height, width,
                     max_image_pixels);
}

ImageFormat image_format(std::span<const std::uint8_t> bytes, std::string_view name) {
  if (bytes.empty()) fail<InputError>("image \"{}\": the file is empty", name);
  if (begins_with(bytes, "\x89PNG\r\n\x1a\n")) return ImageFormat::png;
  if (begins_with(bytes, "\xff\xd8\xff")) return ImageFormat::jpeg;
  if (bytes.size() >= 2 && bytes[0] == 'P' && std::strchr("2356", bytes[1]) != nullptr && bytes[1] != 0)
    return ImageFormat::pnm;
  std::string first;
  for (const std::uint8_t byte : bytes.first(std::min<std::size_t>(bytes.size(), 4)))
    first += fmt::format(" {:02x}", byte);
  fail<InputError>("image \"{}\": not a PGM, PPM, PNG or JPEG file (its first bytes are{})", name, first);
}

Image decode_image(std::span<const std::uint8_t> bytes, std::string_view name, int reduction, int centre) {
  switch (image_format(bytes, name)) {
    case ImageFormat::png:
      return decode_png(bytes, name);
    case ImageFormat::jpeg:
      return decode_jpeg(bytes, name, reduction, centre);
    case ImageFormat::pnm:
      break;
  }
  return decode_pnm(bytes, name);
}

ImageHeader decode_image_header(std::span<const std::uint8_t> bytes, std::size_t file_bytes, std::string_view name) {
  switch (image_format(bytes, name)) {
    case ImageFormat::png:
      return png_header(bytes, name);
    case ImageFormat::jpeg:
      return jpeg_header(bytes, name);
    case ImageFormat::pnm:
      break;
  }
  return pnm_header(bytes, file_bytes, name);
}

std::vector<std::uint8_t> read_image_file(const std::string& path) {
  std::size_t file_bytes = 0;
  return read_beginning(path, max_file_bytes, file_bytes);
}

Image load_image(const std::string& path) {
  return decode_image(read_image_file(path), path);
}

ImageHeader load_image_header(const std::string& path) {
  std::size_t file_bytes = 0;
  const std::vector<std::uint8_t> beginning = read_beginning(path, max_header, file_bytes);
  try {
    return decode_image_header(beginning, file_bytes, path);
  } catch (const InputError&) {
    // Before its size, a JPEG may have a preview image and a PNM a long comment.
    if (file_bytes <= max_header) throw;
  }
  return decode_image_header(read_image_file(path), file_bytes, path);
}

}  // namespace heddle

// Decodes PNG with stb_image, which is compiled only here. It does not verify checksums, so they are verified first.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <utility>

#include "experiments/data/codecs/image_codecs.h"
#include "experiments/data/codecs/orientation.h"
#include "framework/error.h"

namespace heddle {
namespace {

// The size of the largest accepted image in 16-bit RGBA. A small file can make stb's inflate allocate gigabytes, which
// this limit refuses.
constexpr std::size_t max_allocation = static_cast<std::size_t>(max_image_pixels) * 8 + (1U << 20);

void* limited_malloc(std::size_t bytes) {
  return bytes > max_allocation ? nullptr : std::malloc(bytes);
}
void* limited_realloc(void* pointer, std::size_t bytes) {
  return bytes > max_allocation ? nullptr : std::realloc(pointer, bytes);
}

}  // namespace
}  // namespace heddle

#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STBI_ONLY_PNG
#define STBI_NO_STDIO
#define STBI_NO_LINEAR
#define STBI_NO_HDR
#define STBI_FAILURE_USERMSG
#define STBI_MALLOC(bytes) heddle::limited_malloc(bytes)
#define STBI_REALLOC(pointer, bytes) heddle::limited_realloc(pointer, bytes)
#define STBI_FREE(pointer) std::free(pointer)
#include <stb/stb_image.h>

namespace heddle {
namespace {

constexpr std::size_t signature_bytes = 8;
constexpr std::size_t header_bytes = signature_bytes + 25;  // includes the chunk IHDR

std::uint32_t big_endian(std::span<const std::uint8_t> bytes, std::size_t at) {
  return std::uint32_t{bytes[at]} << 24 | std::uint32_t{bytes[at + 1]} << 16 | std::uint32_t{bytes[at + 2]} << 8 |
         bytes[at + 3];
}

constexpr std::uint32_t tag(const char (&name)[5]) {
  std::uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8 | static_cast<std::uint8_t>(name[i]);
  return value;
}

/// The remainder of CRC-32's division for each byte, alone and followed by one to three zero bytes.
constexpr std::array<std::array<std::uint32_t, 256>, 4> crc_tables = [] {
  std::array<std::array<std::uint32_t, 256>, 4> tables{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t rest = i;
    for (int bit = 0; bit < 8; ++bit) rest = (rest >> 1) ^ (rest & 1 ? 0xEDB88320U : 0U);
    tables[0][i] = rest;
  }
  for (std::size_t k = 1; k < 4; ++k)
    for (std::size_t i = 0; i < 256; ++i) tables[k][i] = (tables[k - 1][i] >> 8) ^ tables[0][tables[k - 1][i] & 0xFF];
  return tables;
}();

/// The CRC-32 of ISO 3309, as in PNG and zlib.
std::uint32_t crc32(std::span<const std::uint8_t> bytes) {
  std::uint32_t crc = 0xFFFFFFFFU;
  std::size_t i = 0;
  for (; i + 4 <= bytes.size(); i += 4) {
    crc ^= bytes[i] | std::uint32_t{bytes[i + 1]} << 8 | std::uint32_t{bytes[i + 2]} << 16 |
           std::uint32_t{bytes[i + 3]} << 24;
    crc = crc_tables[3][crc & 0xFF] ^ crc_tables[2][crc >> 8 & 0xFF] ^ crc_tables[1][crc >> 16 & 0xFF] ^
          crc_tables[0][crc >> 24];
  }
  for (; i < bytes.size(); ++i) crc = (crc >> 8) ^ crc_tables[0][(crc ^ bytes[i]) & 0xFF];
  return ~crc;
}

struct PngChunks {
  int orientation = 1;
  std::uint64_t data_bytes = 0;  ///< size of the compressed image
};

/// Checks the length and the checksum of every chunk up to IEND.
PngChunks check_chunks(std::span<const std::uint8_t> bytes, std::string_view name) {
  PngChunks chunks;
  std::size_t at = signature_bytes;
  for (;;) {
    if (bytes.size() - at < 12) fail<InputError>("image \"{}\": broken PNG: it ends before its IEND chunk", name);
    const std::uint32_t length = big_endian(bytes, at);
    if (length > bytes.size() - at - 12)
      fail<InputError>("image \"{}\": broken PNG: the chunk at byte {} announces {} bytes, but {} are left", name, at,
                       length, bytes.size() - at - 12);
    const std::uint32_t type = big_endian(bytes, at + 4);
    const std::uint32_t stored = big_endian(bytes, at + 8 + length);
    const std::uint32_t computed = crc32(bytes.subspan(at + 4, 4 + length));
    if (stored != computed)
      fail<InputError>(
          "image \"{}\": broken PNG: the checksum of the chunk at byte {} is {:08x}, but its bytes give {:08x}", name,
          at, stored, computed);
    if (type == tag("IDAT")) chunks.data_bytes += length;
    if (type == tag("eXIf")) chunks.orientation = exif_orientation(bytes.subspan(at + 8, length));
    if (type == tag("IEND")) return chunks;
    at += 12 + std::size_t{length};
  }
}

/// InputError if the data cannot hold the announced image. Called before memory is allocated for the image.
void check_data(std::span<const std::uint8_t> bytes, const ImageHeader& header, std::uint64_t data_bytes,
                std::string_view name) {
  constexpr std::uint64_t max_inflated = 1032;  // the most bytes that deflate can make of one
  constexpr std::array<std::uint64_t, 7> samples = {1, 1, 3, 1, 2, 1, 4};
  const std::uint64_t bits_of_pixel = bytes[24] * samples[std::min<std::size_t>(bytes[25], samples.size() - 1)];
  const std::uint64_t pixels = static_cast<std::uint64_t>(header.height) * static_cast<std::uint64_t>(header.width);
  if (pixels * bits_of_pixel / 8 > data_bytes * max_inflated)
    fail<InputError>("image \"{}\": broken PNG: {} bytes of data cannot hold {} x {} pixels", name, data_bytes,
                     header.height, header.width);
}

[[noreturn]] void fail_png(std::string_view name) {
  const char* const reason = stbi_failure_reason();
  fail<InputError>("image \"{}\": broken PNG: {}", name, reason != nullptr ? reason : "unknown reason");
}

}  // namespace

ImageHeader png_header(std::span<const std::uint8_t> bytes, std::string_view name) {
  // The sizes are at fixed places. They are read here, because stb's own function refuses the beginning of a file.
  if (bytes.size() < header_bytes) fail<InputError>("image \"{}\": broken PNG: it ends within its header", name);
  if (big_endian(bytes, 12) != tag("IHDR"))
    fail<InputError>("image \"{}\": broken PNG: no IHDR chunk at its beginning", name);
  const std::int64_t width = big_endian(bytes, 16);
  const std::int64_t height = big_endian(bytes, 20);
  check_image_size(height, width, name);
  // Bit 1 of the colour type means colour, palettes included.
  return {.height = static_cast<int>(height),
          .width = static_cast<int>(width),
          .channels = bytes[25] & 2 ? 3 : 1,
          .format = ImageFormat::png};
}

Image decode_png(std::span<const std::uint8_t> bytes, std::string_view name) {
  const ImageHeader header = png_header(bytes, name);
  const PngChunks chunks = check_chunks(bytes, name);
  check_data(bytes, header, chunks.data_bytes, name);
  int width = 0;
  int height = 0;
  int found = 0;
  const std::unique_ptr<stbi_uc, void (*)(void*)> pixels(
      stbi_load_from_memory(bytes.data(), static_cast<int>(bytes.size()), &width, &height, &found, header.channels),
      &std::free);
  if (!pixels) fail_png(name);
  if (width != header.width || height != header.height)
    fail<InputError>("image \"{}\": broken PNG: it has two different headers", name);
  Image image{.height = height, .width = width, .channels = header.channels, .pixels = {}};
  image.pixels.assign(pixels.get(), pixels.get() + std::size_t{1} * static_cast<std::size_t>(height) *
                                                       static_cast<std::size_t>(width) *
                                                       static_cast<std::size_t>(header.channels));
  return upright(std::move(image), chunks.orientation);
}

}  // namespace heddle

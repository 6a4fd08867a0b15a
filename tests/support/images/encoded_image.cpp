#include "tests/support/images/encoded_image.h"

#include <array>
#include <memory>

#include <turbojpeg.h>

#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STB_IMAGE_WRITE_STATIC
#define STBI_WRITE_NO_STDIO
#include <stb/stb_image_write.h>

namespace heddle::test {
namespace {

void append_u32(Bytes& bytes, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<std::uint8_t>(value >> shift));
}

/// CRC-32 bit by bit, as PNG's specification describes it.
std::uint32_t crc32_by_bits(const Bytes& bytes, std::size_t first, std::size_t end) {
  std::uint32_t crc = 0xFFFFFFFFU;
  for (std::size_t i = first; i < end; ++i) {
    crc ^= bytes[i];
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xEDB88320U : 0U);
  }
  return ~crc;
}

void append_chunk(Bytes& png, const char* type, const Bytes& data) {
  append_u32(png, static_cast<std::uint32_t>(data.size()));
  const std::size_t first = png.size();
  png.insert(png.end(), type, type + 4);
  png.insert(png.end(), data.begin(), data.end());
  append_u32(png, crc32_by_bits(png, first, png.size()));
}

/// A zlib stream of one block that is not compressed.
Bytes stored(const Bytes& data) {
  Bytes stream = {0x78, 0x01, 0x01};
  const auto size = static_cast<std::uint16_t>(data.size());
  for (const std::uint16_t word : {size, static_cast<std::uint16_t>(~size)}) {
    stream.push_back(static_cast<std::uint8_t>(word));
    stream.push_back(static_cast<std::uint8_t>(word >> 8));
  }
  stream.insert(stream.end(), data.begin(), data.end());
  std::uint32_t low = 1;
  std::uint32_t high = 0;
  for (const std::uint8_t byte : data) {
    low = (low + byte) % 65521;
    high = (high + low) % 65521;
  }
  append_u32(stream, high << 16 | low);
  return stream;
}

}  // namespace

Image gradient(int height, int width, int channels) {
  Image image{.height = height, .width = width, .channels = channels, .pixels = {}};
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (int c = 0; c < channels; ++c) image.pixels.push_back(static_cast<std::uint8_t>(3 * x + 5 * y + 20 * c));
  return image;
}

Bytes png_by_stb(const Image& image) {
  Bytes bytes;
  const auto append = [](void* target, void* data, int size) {
    const auto* const first = static_cast<std::uint8_t*>(data);
    static_cast<Bytes*>(target)->insert(static_cast<Bytes*>(target)->end(), first, first + size);
  };
  stbi_write_png_to_func(append, &bytes, image.width, image.height, image.channels, image.pixels.data(), 0);
  return bytes;
}

Bytes fine_jpeg(const Image& image) {
  const std::unique_ptr<void, int (*)(void*)> encoder(tjInitCompress(), &tjDestroy);
  unsigned char* data = nullptr;
  unsigned long size = 0;
  const bool is_gray = image.channels == 1;
  const int format = is_gray ? TJPF_GRAY : image.channels == 4 ? TJPF_CMYK : TJPF_RGB;
  tjCompress2(encoder.get(), image.pixels.data(), image.width, 0, image.height, format, &data, &size,
              is_gray ? TJSAMP_GRAY : TJSAMP_444, 95, 0);
  const Bytes bytes(data, data + size);
  tjFree(data);
  return bytes;
}

Bytes encode_png(const RawPng& png) {
  Bytes bytes = bytes_of("\x89PNG\r\n\x1a\n");
  Bytes header;
  append_u32(header, png.width);
  append_u32(header, png.height);
  const std::array<std::uint8_t, 5> rest = {png.depth, png.colour, 0, 0, 0};
  header.insert(header.end(), rest.begin(), rest.end());
  append_chunk(bytes, "IHDR", header);
  if (!png.exif.empty()) append_chunk(bytes, "eXIf", png.exif);
  append_chunk(bytes, "IDAT", stored(png.rows));
  append_chunk(bytes, "IEND", {});
  return bytes;
}

void repair_checksum(Bytes& png, std::size_t chunk) {
  const std::size_t length = std::size_t{png[chunk + 2]} << 8 | png[chunk + 3];
  const std::size_t end = chunk + 8 + length;
  if (end + 4 > png.size()) return;
  Bytes checksum;
  append_u32(checksum, crc32_by_bits(png, chunk + 4, end));
  std::copy(checksum.begin(), checksum.end(), png.begin() + static_cast<std::ptrdiff_t>(end));
}

void repair_checksums(Bytes& png) {
  std::size_t at = 8;
  while (at + 12 <= png.size()) {
    repair_checksum(png, at);
    at += 12 +
          (std::size_t{png[at]} << 24 | std::size_t{png[at + 1]} << 16 | std::size_t{png[at + 2]} << 8 | png[at + 3]);
  }
}

Bytes exif_block(std::uint8_t orientation, bool is_little_endian) {
  if (is_little_endian)
    return {'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0, 0x12, 0x01, 3, 0, 1, 0, 0, 0, orientation, 0, 0, 0, 0, 0, 0, 0};
  return {'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 0x01, 0x12, 0, 3, 0, 0, 0, 1, 0, orientation, 0, 0, 0, 0, 0, 0};
}

Bytes with_segment(const Bytes& jpeg, std::uint8_t marker, const Bytes& segment) {
  const std::size_t length = segment.size() + 2;
  Bytes bytes = {
      jpeg[0], jpeg[1], 0xFF, marker, static_cast<std::uint8_t>(length >> 8), static_cast<std::uint8_t>(length)};
  bytes.insert(bytes.end(), segment.begin(), segment.end());
  bytes.insert(bytes.end(), jpeg.begin() + 2, jpeg.end());
  return bytes;
}

}  // namespace heddle::test

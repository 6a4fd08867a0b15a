// PNG through stb_image, compiled here and nowhere else.
#include <cstdlib>
#include <memory>

#include "experiments/data/codecs/image_codecs.h"
#include "framework/error.h"

namespace heddle {
namespace {

// 16-bit RGBA at the largest accepted size. A small file may ask stb's inflate for gigabytes: it is refused here.
constexpr std::size_t maximum_allocation = static_cast<std::size_t>(maximum_image_pixels) * 8 + (1U << 20);

void* limited_malloc(std::size_t bytes) {
  return bytes > maximum_allocation ? nullptr : std::malloc(bytes);
}
void* limited_realloc(void* pointer, std::size_t bytes) {
  return bytes > maximum_allocation ? nullptr : std::realloc(pointer, bytes);
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

[[noreturn]] void fail_png(std::string_view name) {
  const char* const reason = stbi_failure_reason();
  fail<InputError>("image \"{}\": broken PNG: {}", name, reason != nullptr ? reason : "unknown reason");
}

}  // namespace

ImageHeader png_header(std::span<const std::uint8_t> bytes, std::string_view name) {
  // The sizes stand at fixed places; stb's own look at the header would refuse a file of which it sees the beginning.
  const auto word = [&](std::size_t at) {
    return std::int64_t{bytes[at]} << 24 | bytes[at + 1] << 16 | bytes[at + 2] << 8 | bytes[at + 3];
  };
  if (bytes.size() < 33) fail<InputError>("image \"{}\": broken PNG: its header ends too soon", name);
  if (word(12) != 0x49484452) fail<InputError>("image \"{}\": broken PNG: no IHDR chunk at its beginning", name);
  const std::int64_t width = word(16);
  const std::int64_t height = word(20);
  check_image_size(height, width, name);
  // Bit 1 of the colour type: colour, palettes included.
  return {.height = static_cast<int>(height), .width = static_cast<int>(width), .channels = bytes[25] & 2 ? 3 : 1};
}

Image decode_png(std::span<const std::uint8_t> bytes, std::string_view name) {
  const ImageHeader header = png_header(bytes, name);
  int width = 0;
  int height = 0;
  int found = 0;
  const std::unique_ptr<stbi_uc, void (*)(void*)> pixels(
      stbi_load_from_memory(bytes.data(), static_cast<int>(bytes.size()), &width, &height, &found, header.channels),
      &std::free);
  if (!pixels) fail_png(name);
  if (width != header.width || height != header.height)
    fail<InputError>("image \"{}\": broken PNG: two headers that differ", name);
  Image image{.height = height, .width = width, .channels = header.channels, .pixels = {}};
  image.pixels.assign(pixels.get(), pixels.get() + std::size_t{1} * static_cast<std::size_t>(height) *
                                                       static_cast<std::size_t>(width) *
                                                       static_cast<std::size_t>(header.channels));
  return image;
}

}  // namespace heddle

// PNG through stb_image_write, compiled here and nowhere else.
#include "experiments/data/codecs/image_codecs.h"
#include "framework/error.h"

#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STB_IMAGE_WRITE_STATIC
#define STBI_WRITE_NO_STDIO
#include <stb/stb_image_write.h>

namespace heddle {

std::vector<std::uint8_t> encode_png(const Image& image) {
  std::vector<std::uint8_t> bytes;
  const auto append = [](void* context, void* data, int size) {
    const auto* const first = static_cast<const std::uint8_t*>(data);
    static_cast<std::vector<std::uint8_t>*>(context)->assign(first, first + size);
  };
  if (stbi_write_png_to_func(append, &bytes, image.width, image.height, image.channels, image.pixels.data(),
                             image.width * image.channels) == 0)
    fail("stb_image_write: a PNG of {} x {} pixels cannot be made", image.height, image.width);
  return bytes;
}

}  // namespace heddle

// JPEG through libjpeg-turbo. A warning of the decoder (a file cut short, damaged data) is an error: half a face is not
// a training image.
#include <memory>

#include <turbojpeg.h>

#include "experiments/data/codecs/image_codecs.h"
#include "framework/error.h"

namespace heddle {
namespace {

using Decoder = std::unique_ptr<void, int (*)(void*)>;

Decoder make_decoder() {
  Decoder decoder(tjInitDecompress(), &tjDestroy);
  if (!decoder) fail("libjpeg-turbo: {}", tjGetErrorStr2(nullptr));
  return decoder;
}

ImageHeader read_header(const Decoder& decoder, std::span<const std::uint8_t> bytes, std::string_view name) {
  int width = 0;
  int height = 0;
  int subsampling = 0;
  int colours = 0;
  if (tjDecompressHeader3(decoder.get(), bytes.data(), bytes.size(), &width, &height, &subsampling, &colours) != 0)
    fail<InputError>("image \"{}\": broken JPEG: {}", name, tjGetErrorStr2(decoder.get()));
  // The library takes a file that ends before its first frame for an empty picture.
  if (height < 1 || width < 1) fail<InputError>("image \"{}\": broken JPEG: there is no picture in it", name);
  check_image_size(height, width, name);
  if (colours == TJCS_CMYK || colours == TJCS_YCCK)
    fail<InputError>("image \"{}\": a JPEG in CMYK colours, made for print; gray or RGB is expected", name);
  return {.height = height, .width = width, .channels = colours == TJCS_GRAY ? 1 : 3};
}

}  // namespace

ImageHeader jpeg_header(std::span<const std::uint8_t> bytes, std::string_view name) {
  return read_header(make_decoder(), bytes, name);
}

Image decode_jpeg(std::span<const std::uint8_t> bytes, std::string_view name) {
  const Decoder decoder = make_decoder();
  const ImageHeader header = read_header(decoder, bytes, name);
  Image image{.height = header.height, .width = header.width, .channels = header.channels, .pixels = {}};
  image.pixels.resize(static_cast<std::size_t>(header.height) * static_cast<std::size_t>(header.width) *
                      static_cast<std::size_t>(header.channels));
  // Thousands of empty progressive scans would take hours: the library's limit ends them.
  constexpr int flags = TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS;
  if (tjDecompress2(decoder.get(), bytes.data(), bytes.size(), image.pixels.data(), header.width, 0, header.height,
                    header.channels == 1 ? TJPF_GRAY : TJPF_RGB, flags) != 0)
    fail<InputError>("image \"{}\": broken JPEG: {}", name, tjGetErrorStr2(decoder.get()));
  return image;
}

}  // namespace heddle

// Decodes and encodes JPEG with libjpeg-turbo. A warning of the decoder (a truncated file, damaged data) is an error,
// because half a face is not a training image.
#include <algorithm>
#include <cstring>
#include <memory>

#include <turbojpeg.h>

#include "experiments/data/codecs/image_codecs.h"
#include "experiments/data/codecs/orientation.h"
#include "framework/error.h"

namespace heddle {
namespace {

using Decoder = std::unique_ptr<void, int (*)(void*)>;

/// Makes a decoder for one image. A decoder is not used twice, because it keeps parts of a broken image, and tables
/// that the next image may lack. Making one takes less than a microsecond.
Decoder make_decoder() {
  Decoder decoder(tjInitDecompress(), &tjDestroy);
  if (!decoder) fail("libjpeg-turbo: {}", tjGetErrorStr2(nullptr));
  return decoder;
}

struct JpegHeader {
  ImageHeader size;
  bool is_cmyk = false;
};

JpegHeader read_header(const Decoder& decoder, std::span<const std::uint8_t> bytes, std::string_view name) {
  int width = 0;
  int height = 0;
  int subsampling = 0;
  int colours = 0;
  if (tjDecompressHeader3(decoder.get(), bytes.data(), bytes.size(), &width, &height, &subsampling, &colours) != 0)
    fail<InputError>("image \"{}\": broken JPEG: {}", name, tjGetErrorStr2(decoder.get()));
  // The library reports an empty image for a file that ends before its first frame.
  if (height < 1 || width < 1) fail<InputError>("image \"{}\": broken JPEG: there is no image in it", name);
  check_image_size(height, width, name);
  return {
      .size = {.height = height, .width = width, .channels = colours == TJCS_GRAY ? 1 : 3, .format = ImageFormat::jpeg},
      .is_cmyk = colours == TJCS_CMYK || colours == TJCS_YCCK};
}

/// The information in the segments before the first scan.
struct JpegSegments {
  int orientation = 1;
  bool is_arithmetic = false;  ///< arithmetic coding instead of Huffman coding
  bool is_adobe = false;       ///< written by Adobe's programs, which store CMYK inverted
};

JpegSegments read_segments(std::span<const std::uint8_t> bytes) {
  constexpr std::uint8_t app1 = 0xE1;
  constexpr std::uint8_t app14 = 0xEE;
  constexpr std::uint8_t start_of_scan = 0xDA;
  const auto begins_with = [](std::span<const std::uint8_t> segment, std::string_view text) {
    return segment.size() >= text.size() && std::memcmp(segment.data(), text.data(), text.size()) == 0;
  };
  constexpr std::string_view exif("Exif\0\0", 6);
  JpegSegments found;
  std::size_t at = 2;
  while (at + 4 <= bytes.size() && bytes[at] == 0xFF && bytes[at + 1] != start_of_scan) {
    const std::uint8_t marker = bytes[at + 1];
    if (marker == 0xFF) {  // padding
      ++at;
      continue;
    }
    const std::size_t length = std::size_t{bytes[at + 2]} << 8 | bytes[at + 3];
    if (length < 2 || length > bytes.size() - at - 2) break;
    const std::span<const std::uint8_t> segment = bytes.subspan(at + 4, length - 2);
    if (marker == app1 && begins_with(segment, exif))
      found.orientation = exif_orientation(segment.subspan(exif.size()));
    if (marker >= 0xC9 && marker <= 0xCF && marker != 0xCC) found.is_arithmetic = true;
    if (marker == app14 && begins_with(segment, "Adobe")) found.is_adobe = true;
    at += 2 + length;
  }
  return found;
}

/// Converts CMYK to RGB without a colour profile: the light of each channel is reduced by its ink and then by black.
Image rgb_of_cmyk(const Image& cmyk, bool is_inverted) {
  Image rgb{.height = cmyk.height, .width = cmyk.width, .channels = 3, .pixels = {}};
  rgb.pixels.resize(cmyk.pixels.size() / 4 * 3);
  const auto light = [is_inverted](std::uint8_t ink) { return is_inverted ? ink : 255 - ink; };
  for (std::size_t i = 0; i < cmyk.pixels.size() / 4; ++i)
    for (std::size_t c = 0; c < 3; ++c)
      rgb.pixels[3 * i + c] =
          static_cast<std::uint8_t>((light(cmyk.pixels[4 * i + c]) * light(cmyk.pixels[4 * i + 3]) + 127) / 255);
  return rgb;
}

}  // namespace

ImageHeader jpeg_header(std::span<const std::uint8_t> bytes, std::string_view name) {
  return read_header(make_decoder(), bytes, name).size;
}

Image decode_jpeg(std::span<const std::uint8_t> bytes, std::string_view name, int reduction, int centre) {
  const Decoder decoder = make_decoder();
  const JpegHeader header = read_header(decoder, bytes, name);
  const JpegSegments segments = read_segments(bytes);
  // Each block of 8 x 8 pixels takes at least one bit in Huffman coding.
  const std::int64_t pixels = std::int64_t{header.size.height} * header.size.width;
  if (!segments.is_arithmetic && pixels / 512 > static_cast<std::int64_t>(bytes.size()))
    fail<InputError>("image \"{}\": broken JPEG: {} bytes cannot hold {} x {} pixels", name, bytes.size(),
                     header.size.height, header.size.width);
  Image image{.height = (header.size.height + reduction - 1) / reduction,
              .width = (header.size.width + reduction - 1) / reduction,
              .channels = header.is_cmyk ? 4 : header.size.channels,
              .pixels = {}};
  image.pixels.resize(static_cast<std::size_t>(image.height) * static_cast<std::size_t>(image.width) *
                      static_cast<std::size_t>(image.channels));
  const bool has_part = centre > 0 && centre <= std::min(image.height, image.width) && reduction == 1 &&
                        !header.is_cmyk && segments.orientation == 1;
  if (has_part &&
      decode_jpeg_part(bytes, name, {(image.height - centre) / 2, centre}, {(image.width - centre) / 2, centre}, image))
    return image;
  // Thousands of empty progressive scans would take hours, so the library limits their number.
  constexpr int flags = TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS;
  const int format = header.is_cmyk ? TJPF_CMYK : image.channels == 1 ? TJPF_GRAY : TJPF_RGB;
  if (tjDecompress2(decoder.get(), bytes.data(), bytes.size(), image.pixels.data(), image.width, 0, image.height,
                    format, flags) != 0)
    fail<InputError>("image \"{}\": broken JPEG: {}", name, tjGetErrorStr2(decoder.get()));
  if (header.is_cmyk) image = rgb_of_cmyk(image, segments.is_adobe);
  return upright(std::move(image), segments.orientation);
}

std::vector<std::uint8_t> encode_jpeg(const Image& image, int quality) {
  const std::unique_ptr<void, int (*)(void*)> encoder(tjInitCompress(), &tjDestroy);
  if (!encoder) fail("libjpeg-turbo: {}", tjGetErrorStr2(nullptr));
  const bool is_gray = image.channels == 1;
  const int subsampling = is_gray ? TJSAMP_GRAY : TJSAMP_420;
  std::vector<std::uint8_t> bytes(tjBufSize(image.width, image.height, subsampling));
  unsigned char* data = bytes.data();
  unsigned long size = bytes.size();
  if (tjCompress2(encoder.get(), image.pixels.data(), image.width, 0, image.height, is_gray ? TJPF_GRAY : TJPF_RGB,
                  &data, &size, subsampling, quality, TJFLAG_NOREALLOC) != 0)
    fail("libjpeg-turbo: {}", tjGetErrorStr2(encoder.get()));
  bytes.resize(size);
  return bytes;
}

}  // namespace heddle

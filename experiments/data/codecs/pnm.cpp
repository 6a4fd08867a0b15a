// Decodes PGM and PPM of Netpbm: P2, P3 (text), P5, P6 (binary), at most 8 bits per sample, with comments in the
// header.
#include <algorithm>
#include <cctype>

#include "experiments/data/codecs/image_codecs.h"
#include "framework/error.h"

namespace heddle {
namespace {

class Reader {
 public:
  Reader(std::span<const std::uint8_t> bytes, std::string_view name) : bytes_(bytes), name_(name) {}

  std::size_t position() const { return position_; }

  /// The next decimal number after blanks and comments.
  std::int64_t number(std::string_view what) {
    skip_blanks();
    std::int64_t value = 0;
    const std::size_t first = position_;
    while (position_ < bytes_.size() && std::isdigit(bytes_[position_]) != 0) {
      value = std::min<std::int64_t>(value * 10 + (bytes_[position_++] - '0'), 1'000'000'000);
    }
    if (position_ == first && position_ == bytes_.size())
      fail<InputError>("image \"{}\": the file ends where its {} is expected", name_, what);
    if (position_ == first)
      fail<InputError>("image \"{}\": expected the {} at byte {}, got {:#04x}", name_, what, first, bytes_[first]);
    return value;
  }

  /// Reads the one blank between the header and binary samples.
  void end_header() {
    if (position_ >= bytes_.size() || std::isspace(bytes_[position_]) == 0)
      fail<InputError>("image \"{}\": expected a blank after the header at byte {}", name_, position_);
    ++position_;
  }

 private:
  void skip_blanks() {
    while (position_ < bytes_.size()) {
      if (bytes_[position_] == '#') {
        while (position_ < bytes_.size() && bytes_[position_] != '\n') ++position_;
      } else if (std::isspace(bytes_[position_]) == 0) {
        return;
      } else {
        ++position_;
      }
    }
  }

  std::span<const std::uint8_t> bytes_;
  std::string_view name_;
  std::size_t position_ = 2;
};

struct PnmHeader {
  ImageHeader header;
  bool binary = false;
  std::int64_t maximum = 0;
  std::size_t samples = 0;
};

PnmHeader parse(Reader& reader, std::span<const std::uint8_t> bytes, std::size_t file_bytes, std::string_view name) {
  PnmHeader pnm;
  pnm.binary = bytes[1] >= '5';
  pnm.header.channels = bytes[1] == '3' || bytes[1] == '6' ? 3 : 1;
  const std::int64_t width = reader.number("width");
  const std::int64_t height = reader.number("height");
  check_image_size(height, width, name);
  pnm.maximum = reader.number("largest sample value");
  if (pnm.maximum < 1 || pnm.maximum > 255)
    fail<InputError>("image \"{}\": largest sample value {}; 1 to 255 are accepted", name, pnm.maximum);
  reader.end_header();
  pnm.header.height = static_cast<int>(height);
  pnm.header.width = static_cast<int>(width);
  pnm.samples = static_cast<std::size_t>(height * width * pnm.header.channels);
  // A text sample takes a digit and, except for the last, a blank.
  const std::size_t least = pnm.binary ? pnm.samples : 2 * pnm.samples - 1;
  const std::size_t left = file_bytes - std::min(file_bytes, reader.position());
  if (left < least)
    fail<InputError>("image \"{}\": truncated: {} x {} pixels need at least {} bytes after the header, {} are there",
                     name, height, width, least, left);
  return pnm;
}

}  // namespace

ImageHeader pnm_header(std::span<const std::uint8_t> bytes, std::size_t file_bytes, std::string_view name) {
  Reader reader(bytes, name);
  return parse(reader, bytes, file_bytes, name).header;
}

Image decode_pnm(std::span<const std::uint8_t> bytes, std::string_view name) {
  Reader reader(bytes, name);
  const PnmHeader pnm = parse(reader, bytes, bytes.size(), name);
  Image image{.height = pnm.header.height, .width = pnm.header.width, .channels = pnm.header.channels, .pixels = {}};
  if (pnm.binary) {
    const auto first = bytes.begin() + static_cast<std::ptrdiff_t>(reader.position());
    image.pixels.assign(first, first + static_cast<std::ptrdiff_t>(pnm.samples));
    if (pnm.maximum == 255) return image;
  } else {
    image.pixels.resize(pnm.samples);
    for (std::uint8_t& pixel : image.pixels)
      pixel = static_cast<std::uint8_t>(std::min<std::int64_t>(reader.number("next sample"), pnm.maximum));
  }
  for (std::uint8_t& pixel : image.pixels) {
    const std::int64_t value = std::min<std::int64_t>(pixel, pnm.maximum);
    pixel = static_cast<std::uint8_t>((value * 255 + pnm.maximum / 2) / pnm.maximum);
  }
  return image;
}

}  // namespace heddle

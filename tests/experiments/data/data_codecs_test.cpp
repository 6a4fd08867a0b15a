#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "experiments/data/codecs/image_codecs.h"
#include "experiments/data/codecs/orientation.h"
#include "experiments/data/image.h"
#include "framework/error.h"
#include "framework/scalars/random.h"
#include "tests/support/images/encoded_image.h"

namespace heddle::test {

namespace {

Image decode_as_b(const Bytes& bytes, int reduction = 1) {
  return decode_image(bytes, "b", reduction);
}

void refuses_b(const Bytes& bytes, const std::string& message) {
  CHECK_THROWS_WITH_AS(decode_as_b(bytes), message.c_str(), InputError);
}

/// Every pixel differs from its neighbours.
Image noise(int height, int width, int channels) {
  Image image = gradient(height, width, channels);
  RandomStream draws({14}, Purpose::test, 0, 4);
  for (std::uint8_t& value : image.pixels) value = static_cast<std::uint8_t>(value / 2 + draws.below(128));
  return image;
}

/// The pixels of a square in the middle.
Bytes centre_of(const Image& image, int side) {
  Bytes pixels;
  for (int y = (image.height - side) / 2; y < (image.height - side) / 2 + side; ++y) {
    const auto row = image.pixels.begin() + (y * image.width + (image.width - side) / 2) * image.channels;
    pixels.insert(pixels.end(), row, row + side * image.channels);
  }
  return pixels;
}

/// 2 rows of 3 pixels: "abc", "def".
const Image letters{.height = 2, .width = 3, .channels = 1, .pixels = {'a', 'b', 'c', 'd', 'e', 'f'}};

}  // namespace

TEST_CASE("images in each of the eight orientations of EXIF are turned upright") {
  const std::vector<std::string> turned = {"abcdef", "cbafed", "fedcba", "defabc",
                                           "adbecf", "daebfc", "fcebda", "cfbead"};
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const Image image = upright(letters, orientation);
    CHECK(image.height == (orientation < 5 ? 2 : 3));
    CHECK(image.width == (orientation < 5 ? 3 : 2));
    CHECK(text_of(image.pixels) == turned[static_cast<std::size_t>(orientation) - 1]);
  }
}

TEST_CASE("a JPEG and a PNG are turned as their EXIF says, in either byte order") {
  Bytes segment = bytes_of(std::string("Exif\0\0", 6));
  const Bytes exif = exif_block(6, false);
  segment.insert(segment.end(), exif.begin(), exif.end());
  const Bytes stored = fine_jpeg(gradient(16, 24, 3));
  const Bytes jpeg = with_segment(stored, 0xE1, segment);
  CHECK(decode_as_b(jpeg).pixels == upright(decode_as_b(stored), 6).pixels);
  CHECK(decode_as_b(jpeg).height == 24);
  CHECK(decode_as_b(jpeg, 2).height == 12);

  const Bytes png = encode_png(
      RawPng{.width = 3, .height = 2, .rows = bytes_of(std::string("\0abc\0def", 8)), .exif = exif_block(8)});
  CHECK(text_of(decode_as_b(png).pixels) == "cfbead");
}

TEST_CASE("damaged or hostile EXIF leaves the image as it is stored") {
  CHECK(exif_orientation({}) == 1);
  CHECK(exif_orientation(exif_block(9)) == 1);
  CHECK(exif_orientation(exif_block(0)) == 1);
  Bytes exif = exif_block(6);
  exif[4] = 0xF0;  // the directory lies beyond the end
  exif[7] = 0xFF;
  CHECK(exif_orientation(exif) == 1);
  exif = exif_block(6);
  exif[8] = exif[9] = 0xFF;  // 65,535 entries
  CHECK(exif_orientation(exif) == 6);
  exif[10] = 0;
  CHECK(exif_orientation(exif) == 1);
  for (std::size_t size = 0; size < 22; ++size) {
    exif = exif_block(6);
    exif.resize(size);
    CHECK(exif_orientation(exif) == 1);
  }
}

TEST_CASE("a CMYK JPEG becomes RGB, also if it is inverted as Adobe's programs store it") {
  const auto colour = [](std::uint8_t cyan, std::uint8_t magenta, std::uint8_t yellow, std::uint8_t black) {
    Image inks{.height = 8, .width = 8, .channels = 4, .pixels = {}};
    for (int i = 0; i < 64; ++i) inks.pixels.insert(inks.pixels.end(), {cyan, magenta, yellow, black});
    const Image rgb = decode_as_b(fine_jpeg(inks));
    REQUIRE(rgb.channels == 3);
    REQUIRE(rgb.pixels.size() == 192);
    return rgb.pixels;
  };
  // libjpeg-turbo writes Adobe's marker, so 255 means no ink.
  CHECK(std::abs(colour(255, 255, 255, 255)[0] - 255) <= 2);
  CHECK(colour(255, 255, 255, 0)[1] <= 2);
  const Bytes red = colour(255, 0, 0, 255);
  CHECK(red[0] >= 250);
  CHECK(red[1] <= 5);
  CHECK(red[2] <= 5);
  CHECK(std::abs(colour(128, 255, 255, 128)[0] - 64) <= 3);
}

TEST_CASE("a PNG that is written is read with the same pixels, and the first bytes tell the formats apart") {
  for (const int channels : {1, 3}) {
    const Image image = gradient(5, 7, channels);
    const Bytes png = encode_png(image);
    const Image read = decode_as_b(png);
    CHECK(read.height == 5);
    CHECK(read.channels == channels);
    CHECK(read.pixels == image.pixels);
    CHECK(image_format(png, "b") == ImageFormat::png);
    CHECK(decode_image_header(png, png.size(), "b").format == ImageFormat::png);
    const Bytes jpeg = fine_jpeg(image);
    CHECK(image_format(jpeg, "b") == ImageFormat::jpeg);
    CHECK(decode_image_header(jpeg, jpeg.size(), "b").format == ImageFormat::jpeg);
  }
  const Bytes pgm = bytes_of("P5 1 1 255\nx");
  CHECK(decode_image_header(pgm, pgm.size(), "b").format == ImageFormat::pnm);
}

TEST_CASE("samples of 16 bits are cut to their upper 8") {
  const Bytes gray =
      encode_png(RawPng{.width = 2, .height = 1, .depth = 16, .rows = bytes_of(std::string("\0\x12\xff\xab\x01", 5))});
  CHECK(decode_as_b(gray).pixels == Bytes{0x12, 0xAB});
  const Bytes colour = encode_png(RawPng{.width = 1,
                                         .height = 1,
                                         .depth = 16,
                                         .colour = 2,
                                         .rows = bytes_of(std::string("\0\x12\xff\xab\x01\x80\x7f", 7))});
  CHECK(decode_as_b(colour).pixels == Bytes{0x12, 0xAB, 0x80});
}

TEST_CASE("a flipped bit in any chunk of a PNG is refused") {
  const Bytes png = encode_png(RawPng{.width = 3, .height = 2, .rows = bytes_of(std::string("\0abc\0def", 8))});
  REQUIRE(text_of(decode_as_b(png).pixels) == "abcdef");
  for (std::size_t at = 33; at < png.size(); ++at) {
    Bytes damaged = png;
    damaged[at] ^= 0x10;
    INFO("byte " << at);
    CHECK_THROWS_AS(decode_as_b(damaged), InputError);
  }
  Bytes damaged = png;
  damaged[50] ^= 1;  // a pixel of a stored block, which only the checksum protects
  refuses_b(damaged,
            "image \"b\": broken PNG: the checksum of the chunk at byte 33 is 78255246, but its bytes give 97e73978");
  damaged = png;
  damaged[65]++;
  CHECK_THROWS_AS(decode_as_b(damaged), InputError);
  refuses_b(Bytes(png.begin(), png.end() - 1), "image \"b\": broken PNG: it ends before its IEND chunk");
  damaged = png;
  damaged[33] = 0xFF;
  refuses_b(damaged, "image \"b\": broken PNG: the chunk at byte 33 announces 4278190099 bytes, but 31 are left");
}

TEST_CASE("images that their files cannot hold are refused before memory is allocated") {
  refuses_b(encode_png(RawPng{.width = 60'000, .height = 60'000, .rows = {0}}),
            "image \"b\": 60000 x 60000 pixels; at most 64000000 pixels are accepted");
  refuses_b(encode_png(RawPng{.width = 8000, .height = 7999, .depth = 16, .colour = 6, .rows = {0}}),
            "image \"b\": broken PNG: 12 bytes of data cannot hold 7999 x 8000 pixels");

  Bytes jpeg = fine_jpeg(gradient(16, 16, 1));
  std::size_t frame = 2;  // the segment with the size
  while (jpeg[frame + 1] != 0xC0) frame += 2 + (std::size_t{jpeg[frame + 2]} << 8 | jpeg[frame + 3]);
  jpeg[frame + 5] = jpeg[frame + 7] = 60'000 >> 8;
  jpeg[frame + 6] = jpeg[frame + 8] = 60'000 & 0xFF;
  refuses_b(jpeg, "image \"b\": 60000 x 60000 pixels; at most 64000000 pixels are accepted");
  jpeg[frame + 5] = jpeg[frame + 7] = 7000 >> 8;
  jpeg[frame + 6] = jpeg[frame + 8] = 7000 & 0xFF;
  refuses_b(jpeg, "image \"b\": broken JPEG: " + std::to_string(jpeg.size()) + " bytes cannot hold 7000 x 7000 pixels");
}

TEST_CASE("a JPEG is decoded at an eighth of its size, rounded up") {
  const Bytes jpeg = fine_jpeg(gradient(41, 24, 3));
  for (const int reduction : {1, 2, 4, 8}) {
    const Image image = decode_as_b(jpeg, reduction);
    CHECK(image.height == (41 + reduction - 1) / reduction);
    CHECK(image.width == 24 / reduction);
    CHECK(image.pixels.size() == static_cast<std::size_t>(image.height * image.width * 3));
  }
}

TEST_CASE("the centre of a JPEG has the same pixels as in the whole picture") {
  Bytes exif = bytes_of(std::string("Exif\0\0", 6));
  const Bytes turned = exif_block(6);
  exif.insert(exif.end(), turned.begin(), turned.end());
  const std::vector<Bytes> jpegs = {encode_jpeg(noise(75, 61, 3), 80), encode_jpeg(noise(61, 75, 1), 95),
                                    fine_jpeg(noise(64, 64, 3)), fine_jpeg(noise(40, 40, 4)),
                                    with_segment(fine_jpeg(noise(70, 50, 3)), 0xE1, exif)};
  for (const Bytes& jpeg : jpegs) {
    const Image whole = decode_as_b(jpeg);
    for (const int centre : {1, 8, 17, 33, 40, 60}) {
      const Image part = decode_image(jpeg, "b", 1, centre);
      REQUIRE(part.pixels.size() == whole.pixels.size());
      if (centre > std::min(whole.height, whole.width)) continue;
      CHECK(centre_of(part, centre) == centre_of(whole, centre));
    }
  }
}

TEST_CASE("damage to a JPEG of which the centre is decoded gives an InputError at most, and one within it is found") {
  const Bytes whole = encode_jpeg(noise(90, 90, 3), 80);
  Bytes cut = whole;
  cut.resize(whole.size() / 2);
  CHECK_THROWS_WITH_AS(decode_image(cut, "b", 1, 40), "image \"b\": broken JPEG: Premature end of JPEG file",
                       InputError);
  RandomStream draws({13}, Purpose::test, 0, 3);
  int refused = 0;
  for (int i = 0; i < 1000; ++i) {
    Bytes broken = whole;
    broken[2 + draws.below(broken.size() - 2)] = static_cast<std::uint8_t>(draws.next_u32());
    if (i % 2 == 0) broken.resize(4 + draws.below(broken.size() - 4));
    try {
      (void)decode_image(broken, "b", 1, 40);
    } catch (const InputError&) {
      ++refused;
    }
  }
  CHECK(refused > 100);
}

TEST_CASE("a broken JPEG does not change the next ones that its thread decodes") {
  const Bytes whole = fine_jpeg(gradient(24, 24, 3));
  const Image expected = decode_as_b(whole);
  RandomStream draws({12}, Purpose::test, 0, 2);
  for (int i = 0; i < 300; ++i) {
    Bytes broken = whole;
    broken[2 + draws.below(broken.size() - 2)] = static_cast<std::uint8_t>(draws.next_u32());
    if (i % 2 == 0) broken.resize(4 + draws.below(broken.size() - 4));
    try {
      (void)decode_as_b(broken);
    } catch (const InputError&) {
    }
    REQUIRE(decode_as_b(whole).pixels == expected.pixels);
  }
}

TEST_CASE("damaged EXIF, CMYK and chunks with correct checksums cause nothing worse than an InputError") {
  RandomStream draws({11}, Purpose::test, 0, 1);
  Bytes segment = bytes_of(std::string("Exif\0\0", 6));
  const Bytes exif = exif_block(7);
  segment.insert(segment.end(), exif.begin(), exif.end());
  const std::vector<Bytes> originals = {
      with_segment(fine_jpeg(gradient(16, 24, 3)), 0xE1, segment), fine_jpeg(gradient(16, 16, 4)),
      encode_png(RawPng{.width = 3, .height = 2, .rows = bytes_of(std::string("\0abc\0def", 8)), .exif = exif})};
  int refused = 0;
  for (const Bytes& original : originals) {
    for (int i = 0; i < 1000; ++i) {
      Bytes bytes = original;
      const bool is_png = bytes[0] == 0x89;
      // Only the beginnings are damaged, which hold sizes and directories; a PNG's checksum is corrected afterwards.
      const std::size_t at = is_png ? 16 + draws.below(60) : 2 + draws.below(64);
      bytes[at] = static_cast<std::uint8_t>(draws.next_u32());
      if (is_png) repair_checksum(bytes, at < 33 ? 8 : 33);
      try {
        const Image image = decode_as_b(bytes);
        CHECK(image.pixels.size() == static_cast<std::size_t>(image.height) * static_cast<std::size_t>(image.width) *
                                         static_cast<std::size_t>(image.channels));
      } catch (const InputError&) {
        ++refused;
      }
    }
  }
  CHECK(refused > 500);
}

}  // namespace heddle::test

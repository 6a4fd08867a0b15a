#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "experiments/data/image.h"
#include "experiments/data/resize.h"
#include "framework/error.h"
#include "framework/scalars/random.h"
#include "tests/support/compare/close_to.h"
#include "tests/support/images/encoded_image.h"

namespace heddle::test::data_image_test {

namespace {

Image decode(const Bytes& bytes) {
  return decode_image(bytes, "a");
}

void refuses(const Bytes& bytes, const char* message) {
  CHECK_THROWS_WITH_AS(decode(bytes), message, InputError);
}

}  // namespace

TEST_CASE("text and binary PGM and PPM give their samples, comments and small maxima included") {
  CHECK(decode(bytes_of("P2 # gray\n3 1\n# rows\n10\n0 5 10")).pixels == Bytes{0, 128, 255});
  CHECK(decode(bytes_of("P3 1 1 255 7 8 9")).pixels == Bytes{7, 8, 9});
  const Image gray = decode(bytes_of("P5\n2 3\n255\nabcdef"));
  CHECK(gray.height == 3);
  CHECK(gray.width == 2);
  CHECK(gray.channels == 1);
  CHECK(gray.pixels == bytes_of("abcdef"));
  CHECK(decode(bytes_of("P6 1 1 255\nRGB")).channels == 3);
}

TEST_CASE("PNG keeps every pixel and JPEG approximates them, in gray and in colour") {
  for (const int channels : {1, 3}) {
    const Image image = gradient(21, 17, channels);
    const Image png = decode(png_by_stb(image));
    CHECK(png.channels == channels);
    CHECK(png.pixels == image.pixels);
    const Image jpeg = decode(fine_jpeg(image));
    REQUIRE(jpeg.channels == channels);
    REQUIRE(jpeg.pixels.size() == image.pixels.size());
    for (std::size_t i = 0; i < image.pixels.size(); ++i) CHECK(std::abs(jpeg.pixels[i] - image.pixels[i]) <= 8);
  }
}

TEST_CASE("unusable images are refused with their name and the reason") {
  refuses({}, "image \"a\": the file is empty");
  refuses(bytes_of("GIF89a"), "image \"a\": not a PGM, PPM, PNG or JPEG file (its first bytes are 47 49 46 38)");
  refuses(bytes_of("P5 2 2 255\nabc"),
          "image \"a\": truncated: 2 x 2 pixels need at least 4 bytes after the header, 3 are there");
  refuses(bytes_of("P5 2 2 65535\nabcdefgh"), "image \"a\": largest sample value 65535; 1 to 255 are accepted");
  refuses(bytes_of("P5 2 0 255\n"), "image \"a\": 0 x 2 pixels");
  refuses(bytes_of("P5 100000 99999 255\n"),
          "image \"a\": 99999 x 100000 pixels; at most 64000000 pixels are accepted");
  refuses(bytes_of("P5 99999999999999999999 1 255\n"),
          "image \"a\": 1 x 1000000000 pixels; at most 64000000 pixels are accepted");
  refuses(bytes_of("P2 2 x"), "image \"a\": expected the height at byte 5, got 0x78");
  refuses(bytes_of("P2 2"), "image \"a\": the file ends where its height is expected");
  refuses(bytes_of("P2 2 1 9 10   "), "image \"a\": the file ends where its next sample is expected");
  refuses(bytes_of("P5 1 1 255"), "image \"a\": expected a blank after the header at byte 10");

  Bytes png = png_by_stb(gradient(40, 40, 3));
  refuses(Bytes(png.begin(), png.begin() + 20), "image \"a\": broken PNG: it ends within its header");
  CHECK_THROWS_AS(decode(Bytes(png.begin(), png.begin() + 100)), InputError);
  png[16] = 1;  // adds 2^24 to the width
  refuses(png, "image \"a\": 40 x 16777256 pixels; at most 64000000 pixels are accepted");

  const Bytes jpeg = fine_jpeg(gradient(64, 64, 3));
  refuses(Bytes(jpeg.begin(), jpeg.begin() + static_cast<std::ptrdiff_t>(jpeg.size() / 2)),
          "image \"a\": broken JPEG: Premature end of JPEG file");
}

TEST_CASE("a damaged file causes nothing worse than an InputError") {
  RandomStream draws({7}, Purpose::test, 0, 0);
  const std::vector<Bytes> originals = {bytes_of("P2 4 2 9 1 2 3 4 5 6 7 8"), bytes_of("P6 2 2 255\nabcdefghijkl"),
                                        png_by_stb(gradient(13, 11, 3)), png_by_stb(gradient(13, 11, 1)),
                                        fine_jpeg(gradient(24, 24, 3))};
  int refused = 0;
  for (const Bytes& original : originals) {
    for (int i = 0; i < 400; ++i) {
      Bytes bytes = original;
      for (std::uint64_t changes = 1 + draws.below(4); changes > 0; --changes)
        bytes[draws.below(bytes.size())] = static_cast<std::uint8_t>(draws.next_u32());
      if (i % 3 == 0) bytes.resize(draws.below(bytes.size()) + 1);
      try {
        const Image image = decode(bytes);
        CHECK(image.pixels.size() == static_cast<std::size_t>(image.height) * static_cast<std::size_t>(image.width) *
                                         static_cast<std::size_t>(image.channels));
      } catch (const InputError&) {
        ++refused;
      }
    }
  }
  CHECK(refused > 500);
}

TEST_CASE("a JPEG that ends before its first frame is broken, not empty") {
  const Bytes beginning{0xFF, 0xD8, 0xFF, 0xE0};
  CHECK_THROWS_WITH_AS(decode(beginning), "image \"a\": broken JPEG: there is no image in it", InputError);
}

TEST_CASE("the beginning of a file is enough to read its size and to find a truncated binary file") {
  const Bytes beginning = bytes_of("P5 100 50 255\n");
  CHECK(decode_image_header(beginning, 5014, "a").width == 100);
  CHECK_THROWS_WITH_AS(
      decode_image_header(beginning, 5013, "a"),
      "image \"a\": truncated: 50 x 100 pixels need at least 5000 bytes after the header, 4999 are there", InputError);
  for (const Bytes& bytes : {png_by_stb(gradient(200, 100, 3)), fine_jpeg(gradient(200, 100, 3))}) {
    const ImageHeader header = decode_image_header(std::span(bytes).first(700), bytes.size(), "a");
    CHECK(header.height == 200);
    CHECK(header.width == 100);
    CHECK(header.channels == 3);
  }
}

TEST_CASE("gray is converted to colour and colour to gray") {
  CHECK(with_channels(decode(bytes_of("P5 1 1 255\na")), 3).pixels == bytes_of("aaa"));
  CHECK(with_channels(decode(bytes_of("P3 2 1 255 255 0 0 10 10 10")), 1).pixels == Bytes{76, 10});
}

TEST_CASE("resizing keeps constants, averages where it shrinks and interpolates where it enlarges") {
  std::vector<float> pixels(3 * 5);
  resize_to_floats({.height = 7, .width = 9, .channels = 1, .pixels = Bytes(63, 255)}, 3, 5, pixels);
  for (const float pixel : pixels) CHECK(pixel == close_to(1.0F));

  // A checkerboard that shrinks to a quarter is gray everywhere; sampling without a filter would give black or white.
  Image board{.height = 16, .width = 16, .channels = 1, .pixels = {}};
  for (int i = 0; i < 256; ++i) board.pixels.push_back((i / 16 + i) % 2 != 0 ? 255 : 0);
  std::vector<float> small(16);
  resize_to_floats(board, 4, 4, small);
  for (const float pixel : small) CHECK(std::abs(pixel) < 0.05F);

  std::vector<float> wide(4);
  resize_to_floats({.height = 1, .width = 2, .channels = 1, .pixels = {0, 255}}, 1, 4, wide);
  CHECK(wide[0] == close_to(-1.0F));
  CHECK(wide[1] == close_to(-0.5F));
  CHECK(wide[2] == close_to(0.5F));
  CHECK(wide[3] == close_to(1.0F));

  std::vector<float> same(2);
  resize_to_floats({.height = 1, .width = 2, .channels = 1, .pixels = {0, 255}}, 1, 2, same);
  CHECK(same == std::vector<float>{-1.0F, 1.0F});
}

TEST_CASE("a missing file and a folder are refused") {
  CHECK_THROWS_WITH_AS(load_image("no/such.png"), "image \"no/such.png\": no such file", InputError);
  CHECK_THROWS_WITH_AS(load_image("/"), "image \"/\": not a regular file", InputError);
}

}  // namespace heddle::test::data_image_test

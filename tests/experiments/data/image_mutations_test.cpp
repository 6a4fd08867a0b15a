#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "experiments/data/image.h"
#include "framework/error.h"
#include "framework/files/atomic_file.h"
#include "tests/support/files/mutations.h"
#include "tests/support/files/source_folder.h"
#include "tests/support/images/encoded_image.h"

namespace heddle::test {

using namespace std::string_literals;

namespace {

std::filesystem::path image_files() {
  return test::source_folder() / "tests/experiments/data/image_files";
}

/// The files that end like this, in the order of their names.
std::vector<std::string> files_with(const std::vector<std::string_view>& endings) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(image_files()))
    if (std::find(endings.begin(), endings.end(), entry.path().extension().string()) != endings.end())
      names.push_back(entry.path().string());
  std::sort(names.begin(), names.end());
  std::vector<std::string> files;
  for (const std::string& name : names) files.push_back(read_file(name, 1 << 20));
  return files;
}

void decode(const Bytes& bytes, RandomStream& draws) {
  constexpr std::array<int, 4> reductions{1, 2, 4, 8};
  const int reduction = reductions[draws.below(4)];
  const int centre = static_cast<int>(draws.below(2) * draws.below(12));
  try {
    (void)decode_image_header(Bytes(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(bytes.size() / 2)),
                              bytes.size(), "b");
  } catch (const InputError&) {  // half of a file may be too little of it
  }
  const ImageHeader header = decode_image_header(bytes, bytes.size(), "b");
  const Image image = decode_image(bytes, "b", reduction, centre);
  REQUIRE(image.pixels.size() == static_cast<std::size_t>(image.height) * static_cast<std::size_t>(image.width) *
                                     static_cast<std::size_t>(image.channels));
  REQUIRE(header.channels == image.channels);
}

}  // namespace

TEST_CASE("images that other programs wrote are decoded") {
  // The gray level at (x, y) is (19 x + 27 y) % 256.
  for (const std::string name : {"gray16.png", "binary.pgm", "text.pgm"}) {
    const Image image = load_image((image_files() / name).string());
    REQUIRE(image.height == 9);
    REQUIRE(image.width == 13);
    REQUIRE(image.channels == 1);
    for (int i = 0; i < 9 * 13; ++i)
      REQUIRE(image.pixels[static_cast<std::size_t>(i)] == (i % 13 * 19 + i / 13 * 27) % 256);
  }
  for (const std::string name : {"interlaced.png", "binary.ppm", "text.ppm"}) {
    const Image image = load_image((image_files() / name).string());
    REQUIRE(image.channels == 3);
    for (int i = 0; i < 9 * 13 * 3; ++i)
      REQUIRE(image.pixels[static_cast<std::size_t>(i)] == (i / 3 % 13 * 19 + i / 39 * 27 + i % 3 * 80) % 256);
  }
  for (const std::string name : {"baseline.jpg", "rgb.png"}) {  // turned by their EXIF
    const Image image = load_image((image_files() / name).string());
    CHECK(image.height == 13);
    CHECK(image.width == 9);
  }
  for (const std::string name : {"cmyk.jpg", "progressive.jpg", "restarts.jpg", "palette.png", "rgba.png"})
    CHECK(load_image((image_files() / name).string()).channels == 3);
  for (const std::string name : {"gray.jpg", "gray1.png", "gray2.png", "gray4.png"})
    CHECK(load_image((image_files() / name).string()).channels == 1);
}

TEST_CASE("images: mutated PNG files are decoded or refused with their name") {
  const std::vector<std::string> files = files_with({".png"});
  check_mutations(4000, 0.5, "image \"b\": ", [&](RandomStream& draws) {
    Bytes bytes = bytes_of(mutated(files[draws.below(files.size())], "\0\x01\x03\x08\x10\x49\x44\x7f\x80\xff"s, draws));
    if (draws.below(8) != 0) repair_checksums(bytes);  // so that more than the checksums is tested
    decode(bytes, draws);
  });
}

TEST_CASE("images: mutated JPEG files are decoded or refused with their name") {
  const std::vector<std::string> files = files_with({".jpg"});
  check_mutations(4000, 0.3, "image \"b\": ", [&](RandomStream& draws) {
    const std::string& whole = files[draws.below(files.size())];
    decode(bytes_of(mutated(whole, "\0\x01\x02\x03\x11\xc0\xc2\xc4\xd0\xd8\xd9\xda\xdd\xe1\xff"s, draws)), draws);
  });
}

TEST_CASE("images: mutated PGM and PPM files are decoded or refused with their name") {
  const std::vector<std::string> files = files_with({".pgm", ".ppm"});
  check_mutations(4000, 0.3, "image \"b\": ", [&](RandomStream& draws) {
    const std::string& whole = files[draws.below(files.size())];
    // The header is short: half of the inputs have errors in it alone.
    const std::size_t header = draws.below(2) == 0 ? whole.size() : std::min<std::size_t>(whole.size(), 24);
    decode(bytes_of(mutated(whole.substr(0, header), "0123456789P# \t\n\r-\0\xff"s, draws) + whole.substr(header)),
           draws);
  });
}

}  // namespace heddle::test

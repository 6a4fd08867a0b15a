// Embeddings of images in files.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <string>

#include <doctest/doctest.h>

#include "framework/description/text.h"
#include "framework/files/atomic_file.h"
#include "tests/support/program/trained.h"
#include "tests/support/scratch.h"

namespace heddle::test {

namespace {

namespace fs = std::filesystem;

/// The elements of a .npy whose header is this.
std::vector<float> read_npy(const fs::path& file, const std::string& shape) {
  const std::string bytes = read_file(file, 1 << 20);
  REQUIRE(bytes.size() > 128);
  CHECK(bytes.substr(0, 8) == std::string("\x93NUMPY\x01\x00", 8));
  CHECK(bytes.substr(8, 2) == std::string("\x76\x00", 2));
  const std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + ", }";
  CHECK(bytes.substr(10, header.size()) == header);
  CHECK(bytes[127] == '\n');
  std::vector<float> elements((bytes.size() - 128) / sizeof(float));
  std::memcpy(elements.data(), bytes.data() + 128, elements.size() * sizeof(float));
  return elements;
}

}  // namespace

TEST_CASE("embeddings of folders and files, in natural order, are the same on any ranks") {
  const Scratch folder;
  const std::string results = train_small(folder / "");
  write_new_file(folder / "faces/__MACOSX/p0/._1.jpg", "no image");
  const std::string faces = (folder / "faces").string();
  const std::string one = (folder / "faces/p2/3.jpg").string();
  const auto embed = [&](const char* name, std::vector<std::string> more) {
    more.insert(more.begin(), {"embed", results, faces, one, "--out", (folder / name).string()});
    const Called called = call(more);
    CAPTURE(called.err);
    REQUIRE(called.code == 0);
    return called.out;
  };
  CHECK(embed("a.npy", {}) == (folder / "a.npy").string() + ": 17 images, embeddings of 5 features by step 3 of " +
                                  (folder / "results/checkpoint/small").string() + "\n");
  const std::vector<float> embeddings = read_npy(folder / "a.npy", "(17, 5)");
  REQUIRE(embeddings.size() == 85);
  const std::vector<std::string> names = lines_of(read_file(folder / "a.txt", 1 << 20));
  REQUIRE(names.size() == 17);
  CHECK(names[0] == faces + "/p0/0.jpg");
  CHECK(names[16] == one);
  CHECK(std::equal(embeddings.begin() + 80, embeddings.end(), embeddings.begin() + 55));  // row 11 is the same image

  embed("b.npy", {"--set", "mesh.dp=1"});
  CHECK(read_npy(folder / "b.npy", "(17, 5)") == embeddings);

  embed("unit.npy", {"--normalize"});
  const std::vector<float> unit = read_npy(folder / "unit.npy", "(17, 5)");
  double square = 0;
  for (std::size_t i = 0; i < 5; ++i) square += static_cast<double>(unit[i]) * unit[i];
  CHECK(std::abs(square - 1) < 1e-6);
  embed("flipped.npy", {"--flip"});
  CHECK(read_npy(folder / "flipped.npy", "(17, 5)") != embeddings);

  embed("a.csv", {});
  const std::vector<std::string> rows = lines_of(read_file(folder / "a.csv", 1 << 20));
  REQUIRE(rows.size() == 18);
  CHECK(rows[0] == "image,e0,e1,e2,e3,e4");
  CHECK(rows[1].starts_with(faces + "/p0/0.jpg," + fmt::format("{},{},", embeddings[0], embeddings[1])));
}

TEST_CASE("images in a folder that is a symbolic link are embedded, too") {
  const Scratch folder;
  const std::string results = train_small(folder / "");
  fs::create_directory(folder / "linked");
  fs::create_directory_symlink(folder / "faces/p1", folder / "linked/p1");
  const std::string out = (folder / "e.npy").string();
  REQUIRE(call({"embed", results, (folder / "linked").string(), "--out", out}).code == 0);
  const std::vector<std::string> names = lines_of(read_file(folder / "e.txt", 1 << 20));
  REQUIRE(names.size() == 4);
  CHECK(names[0] == (folder / "linked/p1/0.jpg").string());
}

TEST_CASE("a path in a .csv is quoted where a comma would end it") {
  const Scratch folder;
  const std::string results = train_small(folder / "");
  const std::string image = (folder / "a \"b\", c.pgm").string();
  write_file_atomically(image, face_as_pgm(1, 1));
  const std::string out = (folder / "e.csv").string();
  REQUIRE(call({"embed", results, image, "--out", out}).code == 0);
  const std::string row = lines_of(read_file(out, 1 << 20)).at(1);
  CHECK(row.starts_with("\"" + (folder / "a \"\"b\"\", c.pgm").string() + "\","));
}

TEST_CASE("embed names what is wrong with its images and its file, and leaves no file") {
  const Scratch folder;
  const std::string results = train_small(folder / "");
  const auto error = [&](const std::string& image, const std::string& name) {
    const Called called = call({"embed", results, image, "--out", (folder / name.c_str()).string()});
    CHECK(called.code == 2);
    CHECK(!fs::exists(folder / name.c_str()));
    return called.err;
  };
  const auto path = [&](const char* name) { return (folder / name).string(); };
  CHECK(error(path("none"), "e.npy") == "heddle: " + path("none") + ": does not exist\n");
  CHECK(error(path("results"), "e.npy") == "heddle: " + path("results") + ": has no images\n");
  CHECK(error(path("faces"), "e.txt") ==
        "heddle: " + path("e.txt") + ": expected a file that ends in .npy, .parquet or .csv\n");
  const std::string jpeg = face_as_jpeg(0, 0);
  write_file_atomically(folder / "broken.jpg", jpeg.substr(0, jpeg.size() - 12));
  CHECK(error(path("broken.jpg"), "e.npy") ==
        "heddle: image \"" + path("broken.jpg") + "\": broken JPEG: Premature end of JPEG file\n");
  CHECK(!fs::exists(folder / "e.txt"));
  // A list of pairs, say.
  write_file_atomically(folder / "pairs.txt", "a b 1\n");
  CHECK(error(path("faces"), "pairs.npy") ==
        "heddle: " + path("pairs.txt") +
            ": exists already, and would be written beside pairs.npy: remove it or choose another name\n");
  CHECK(read_file(folder / "pairs.txt", 1 << 20) == "a b 1\n");
}

}  // namespace heddle::test

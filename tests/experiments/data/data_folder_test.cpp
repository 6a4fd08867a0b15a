#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "experiments/data/data_config.h"
#include "experiments/data/files/natural_order.h"
#include "framework/error.h"
#include "tests/support/compare/close_to.h"
#include "tests/support/images/image_files.h"

namespace heddle::test {

namespace {

std::unique_ptr<const Dataset> open(const std::string& path, std::int64_t train = 1, std::int64_t test = 0) {
  DataConfig config;
  config.type = DataType::image_folder;
  config.image_folder.path = path;
  config.image_folder.image = {1, 2, 2};
  config.image_folder.train_per_identity = train;
  config.image_folder.test_per_identity = test;
  return make_dataset(config, {1});
}

void refuses_folder(const std::string& path, const std::string& message, std::int64_t train = 1,
                    std::int64_t test = 0) {
  CHECK_THROWS_WITH_AS(open(path, train, test), message.c_str(), InputError);
}

}  // namespace

TEST_CASE("natural order compares numbers as numbers and is strict") {
  const std::vector<std::string> sorted = {"",   "1.pgm", "01.pgm", "2.pgm", "10.pgm", "a",
                                           "a1", "a1b",   "a2",     "a10",   "a10b2",  "a10b10"};
  for (std::size_t i = 0; i < sorted.size(); ++i)
    for (std::size_t j = 0; j < sorted.size(); ++j) {
      if (sorted[i] == "1.pgm" && sorted[j] == "01.pgm") continue;
      if (sorted[i] == "01.pgm" && sorted[j] == "1.pgm") continue;
      INFO(sorted[i] << " and " << sorted[j]);
      CHECK(natural_less(sorted[i], sorted[j]) == (i < j));
    }
  CHECK(natural_less("01", "1") != natural_less("1", "01"));
  CHECK(natural_less("zoe", "ümit"));  // by the values of bytes, whatever the machine's char
  CHECK(natural_less("99999999999999999999998", "99999999999999999999999"));
}

TEST_CASE("folders are labels and files are split in natural order") {
  const WrittenImages folder;
  folder.picture("s10/1.pgm", '\xff');
  folder.picture("s10/2.pgm", '\xff');
  for (int i = 1; i <= 11; ++i) folder.picture("s2/" + std::to_string(i) + ".pgm", static_cast<char>(i));
  folder.write("s2/notes.txt", "not an image");
  folder.write("README", "not a folder");
  folder.write(".hidden/x", "");
  folder.picture("__MACOSX/1.pgm", '\xff');
  const auto data = open(folder.path());
  CHECK(data->classes() == 2);
  CHECK(data->size(Split::train) == 2);
  REQUIRE(data->size(Split::test) == 11);
  CHECK(data->sample_name(Split::train, 0) == folder.path() + "/s2/1.pgm");
  CHECK(data->sample_name(Split::test, 0) == folder.path() + "/s2/2.pgm");
  CHECK(data->sample_name(Split::test, 9) == folder.path() + "/s2/11.pgm");
  CHECK(data->sample_name(Split::test, 10) == folder.path() + "/s10/2.pgm");
  CHECK(data->label(Split::test, 9) == 0);
  CHECK(data->label(Split::test, 10) == 1);
  std::vector<float> batch(8);
  read_batch(*data, Split::test, std::vector<std::int64_t>{10, 0}, batch);
  CHECK(batch[0] == 1.0F);
  CHECK(batch[4] == close_to(2 * 2.0F / 255 - 1));
  CHECK(open(folder.path(), 1, 1)->size(Split::test) == 2);
  CHECK(data->notes(0).empty());
  folder.picture("forgotten.pgm", '\xff');
  folder.picture("s2/album/1.pgm", '\xff');
  folder.write("s2/1.webp", "x");
  folder.write("s10/1.WEBP", "x");
  const std::string title = "image folder \"" + folder.path() + "\": ";
  CHECK(open(folder.path())->notes(0) ==
        std::vector<std::string>{title + "1 image is in no person's folder and is left out",
                                 title + "1 folder within people's folders is left out",
                                 title + "2 images of a format other than PGM, PPM, PNG and JPEG are left out"});
}

TEST_CASE("a folder that cannot be used is refused, and the message names it") {
  const WrittenImages folder;
  const std::string& path = folder.path();
  refuses_folder(path + "/none", "data.path: expected a folder, \"" + path + "/none\" does not exist");
  folder.write("file", "");
  refuses_folder(path + "/file", "data.path: expected a folder, \"" + path + "/file\" is a file");
  refuses_folder(path, "image folder \"" + path + "\": expected one folder for each person, found none");
  folder.picture("b/1.pgm", 'b');
  folder.picture("b/2.pgm", 'b');
  refuses_folder(path, "image folder \"" + path + "\": 1 person with training images; at least 2 are needed");
  folder.write("a/readme", "");
  refuses_folder(path,
                 "image folder \"" + path +
                     "/a\": no PGM, PPM, PNG or JPEG file in it; in an experiment, data.min_images: 1 leaves it out");
  folder.picture("a/1.pgm", 'a');
  refuses_folder(path,
                 "image folder \"" + path +
                     "/a\": 1 image, but 1 for training (train_per_identity) and at least 1 for testing are needed");
  folder.picture("a/2.pgm", 'a');
  refuses_folder(
      path,
      "image folder \"" + path + "/a\": 2 images, but 1 for training (train_per_identity) and 2 for testing are needed",
      1, 2);
  CHECK_NOTHROW(open(path));
  folder.write("a/2.pgm", "P5 2 2 255\nab");
  refuses_folder(path, "image \"" + path +
                           "/a/2.pgm\": truncated: 2 x 2 pixels need at least 4 bytes after the header, 2 are there");
  folder.write("a/2.pgm", "");
  refuses_folder(path, "image \"" + path + "/a/2.pgm\": the file is empty");
}

TEST_CASE("a file that breaks during training is named when its batch is read") {
  const WrittenImages folder;
  for (const char* name : {"a/1.pgm", "a/2.pgm", "b/1.pgm", "b/2.pgm"}) folder.picture(name, 'x');
  const auto data = open(folder.path());
  folder.write("b/1.pgm", "oops");
  std::vector<float> batch(8);
  const std::string message =
      "image \"" + folder.path() + "/b/1.pgm\": not a PGM, PPM, PNG or JPEG file (its first bytes are 6f 6f 70 73)";
  CHECK_THROWS_WITH_AS(read_batch(*data, Split::train, std::vector<std::int64_t>{0, 1}, batch), message.c_str(),
                       InputError);
}

TEST_CASE("an image size that no data set can give is refused") {
  DataConfig config;
  config.synthetic_identities.image = {2, 8, 8};
  CHECK_THROWS_WITH_AS(image_shape(config), "data.image: expected 1 (gray) or 3 (colour) channels, got 2", InputError);
  config.synthetic_identities.image = {3, 8};
  CHECK_THROWS_WITH_AS(image_shape(config), "data.image: expected [channels, height, width], got 2 numbers",
                       InputError);
}

TEST_CASE("a type outside the table of data sets is an error") {
  DataConfig config;
  config.type = static_cast<DataType>(data_sets.size);
  CHECK_THROWS_AS((void)image_shape(config), std::out_of_range);
  CHECK_THROWS_AS((void)make_dataset(config, {1}), std::out_of_range);
}

TEST_CASE("the number of people of synthetic data is known before they are opened") {
  DataConfig config;
  config.synthetic_identities.identities = 17;
  CHECK(known_classes(config) == 17);
  config.type = DataType::image_folder;
  CHECK_FALSE(known_classes(config));
}

}  // namespace heddle::test

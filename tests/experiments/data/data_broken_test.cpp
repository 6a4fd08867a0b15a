#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "experiments/data/data_config.h"
#include "framework/error.h"
#include "tests/support/images/image_files.h"

using namespace heddle;

namespace {

using Lines = std::vector<std::string>;

DataConfig config_of(const WrittenImages& files, OnBroken on_broken) {
  DataConfig config;
  config.type = DataType::image_folder;
  config.image_folder.path = files.path();
  config.image_folder.image = {1, 2, 2};
  config.image_folder.split = FolderSplit::share;
  config.image_folder.train_share = 0.8;
  config.image_folder.on_broken = on_broken;
  return config;
}

/// Ten photographs of each of four people, each with a value of its own, and a single one of a fifth person.
void write_people(const WrittenImages& files) {
  for (int person = 0; person < 4; ++person)
    for (int image = 0; image < 10; ++image)
      files.picture("p" + std::to_string(person) + "/" + std::to_string(image) + ".pgm",
                    static_cast<char>(20 * person + image));
  files.picture("single/0.pgm", 'x');
}

float first_pixel(const Dataset& data, Split split, std::int64_t index) {
  std::vector<float> pixels(4);
  data.read(split, index, pixels);
  return pixels[0];
}

float level(int value) {
  return (static_cast<float>(value) - 127.5F) / 127.5F;
}

}  // namespace

TEST_CASE("broken images are left out when the data are opened, with the people whom they leave without any") {
  const WrittenImages files;
  write_people(files);
  files.write("p1/0.pgm", "no image");
  files.write("single/0.pgm", "");
  CHECK_THROWS_AS(make_dataset(config_of(files, OnBroken::stop), {1}), InputError);
  const auto data = make_dataset(config_of(files, OnBroken::skip), {1});
  CHECK(data->classes() == 4);
  CHECK(data->size(Split::train) == 31);
  CHECK(data->size(Split::test) == 8);
  CHECK(data->sample_name(Split::train, 8) == files.path("p1/1.pgm"));
  CHECK(data->notes(0) == Lines{"image folder \"" + files.path() +
                                    "\": 2 broken images are left out, and 1 person of whom no training image is left",
                                "left out: image \"" + files.path("p1/0.pgm") +
                                    "\": not a PGM, PPM, PNG or JPEG file (its first bytes are 6e 6f 20 69)",
                                "left out: image \"" + files.path("single/0.pgm") + "\": the file is empty"});
  CHECK(data->broken_images() == 0);
}

TEST_CASE("an image that breaks later is replaced by the next of the same person, whoever reads it first") {
  const WrittenImages files;
  write_people(files);
  const auto data = make_dataset(config_of(files, OnBroken::skip), {1});
  const auto other = make_dataset(config_of(files, OnBroken::skip), {1});
  files.write("p0/7.pgm", "");  // the last of its person for training: the first one follows
  files.write("p0/0.pgm", "");
  CHECK(first_pixel(*data, Split::train, 7) == level(1));
  CHECK(first_pixel(*data, Split::train, 0) == level(1));
  CHECK(first_pixel(*data, Split::train, 7) == level(1));
  CHECK(data->broken_images() == 2);
  CHECK(data->notes(0) == Lines{"image \"" + files.path("p0/7.pgm") + "\": the file is empty; \"" +
                                    files.path("p0/1.pgm") + "\" in its place",
                                "image \"" + files.path("p0/0.pgm") + "\": the file is empty; \"" +
                                    files.path("p0/1.pgm") + "\" in its place"});
  CHECK(data->notes(1).size() == 1);
  CHECK(data->notes(7).empty());
  // Another process, which reads in another order, gets the same pixels.
  CHECK(first_pixel(*other, Split::train, 0) == level(1));
  CHECK(first_pixel(*other, Split::train, 7) == level(1));
}

TEST_CASE("a person's only image that breaks later becomes gray") {
  const WrittenImages files;
  write_people(files);
  const auto data = make_dataset(config_of(files, OnBroken::skip), {1});
  files.remove("single/0.pgm");
  CHECK(first_pixel(*data, Split::train, 32) == 0.0F);
  CHECK(data->notes(0) ==
        Lines{"image \"" + files.path("single/0.pgm") + "\": no such file; a gray image in its place"});
}

TEST_CASE("where more than a tenth is broken the run ends, for something else must be wrong") {
  const WrittenImages files;
  write_people(files);
  const auto data = make_dataset(config_of(files, OnBroken::skip), {1});
  CHECK_THROWS_WITH_AS(make_dataset(config_of(files, OnBroken::stop), {1})->read(Split::train, 99, {}),
                       ("image folder \"" + files.path() + "\": sample 99 of 33 was asked for").c_str(), Error);
  files.remove("p0");
  for (int i = 0; i < 3; ++i) CHECK(first_pixel(*data, Split::train, i) == 0.0F);
  const std::string message =
      "data: 4 of 33 images are broken, more than a tenth, and are not skipped; one is image \"" +
      files.path("p0/3.pgm") + "\": no such file";
  CHECK_THROWS_WITH_AS(first_pixel(*data, Split::train, 3), message.c_str(), InputError);
  for (int image = 0; image < 6; ++image) files.write("p1/" + std::to_string(image) + ".pgm", "oops");
  CHECK_THROWS_AS(make_dataset(config_of(files, OnBroken::skip), {1}), InputError);
}

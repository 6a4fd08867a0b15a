#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "experiments/data/data_config.h"
#include "experiments/data/encoded_images.h"
#include "framework/error.h"
#include "tests/support/images/image_files.h"

namespace heddle::test::data_broken_test {

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

/// Ten photographs of each of four people, each with its own value, and a single one of a fifth person.
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

TEST_CASE("broken images are left out when the data are opened, and so are people without other images") {
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
  CHECK(data->notes(0) ==
        Lines{"image folder \"" + files.path() +
                  "\": 2 images that cannot be used are left out, and 1 person with no training image left",
              "left out: image \"" + files.path("p1/0.pgm") +
                  "\": not a PGM, PPM, PNG or JPEG file (its first bytes are 6e 6f 20 69)",
              "left out: image \"" + files.path("single/0.pgm") + "\": the file is empty"});
  CHECK(data->broken_images() == 0);
}

TEST_CASE(
    "an image that breaks later is replaced by the next one of the same person, whichever process reads it first") {
  const WrittenImages files;
  write_people(files);
  const auto data = make_dataset(config_of(files, OnBroken::skip), {1});
  const auto other = make_dataset(config_of(files, OnBroken::skip), {1});
  files.write("p0/7.pgm", "");  // the person's last training image, which is followed by the first
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

TEST_CASE("an image that breaks later becomes gray if it is the only one of its person") {
  const WrittenImages files;
  write_people(files);
  const auto data = make_dataset(config_of(files, OnBroken::skip), {1});
  files.remove("single/0.pgm");
  CHECK(first_pixel(*data, Split::train, 32) == 0.0F);
  CHECK(data->notes(0) ==
        Lines{"image \"" + files.path("single/0.pgm") + "\": no such file; a gray image in its place"});
}

TEST_CASE("a run ends if more than a tenth of its images are broken") {
  const WrittenImages files;
  write_people(files);
  const auto data = make_dataset(config_of(files, OnBroken::skip), {1});
  CHECK_THROWS_WITH_AS(make_dataset(config_of(files, OnBroken::stop), {1})->read(Split::train, 99, {}),
                       ("image folder \"" + files.path() + "\": sample 99 is out of range, there are 33").c_str(),
                       Error);
  files.remove("p0");
  for (int i = 0; i < 3; ++i) CHECK(first_pixel(*data, Split::train, i) == 0.0F);
  const std::string message =
      "data: 4 of 33 images cannot be used, more than a tenth, and are not skipped; one is image \"" +
      files.path("p0/3.pgm") + "\": no such file";
  CHECK_THROWS_WITH_AS(first_pixel(*data, Split::train, 3), message.c_str(), InputError);
  for (int image = 0; image < 6; ++image) files.write("p1/" + std::to_string(image) + ".pgm", "oops");
  CHECK_THROWS_AS(make_dataset(config_of(files, OnBroken::skip), {1}), InputError);
}

namespace {

/// Three images of one person, the first of which is broken. Counts how often each is fetched.
class CountedImages final : public EncodedImages {
 public:
  CountedImages()
      : EncodedImages(Preprocessing({.channels = 1, .height = 2, .width = 2}), OnBroken::skip), fetched_(3) {}

  std::int64_t classes() const override { return 1; }
  std::int64_t size(Split split) const override { return split == Split::train ? 3 : 0; }
  std::int64_t label(Split /*split*/, std::int64_t /*index*/) const override { return 0; }
  std::string sample_name(Split /*split*/, std::int64_t index) const override { return std::to_string(index); }
  std::span<const std::uint8_t> encoded(Split /*split*/, std::int64_t index,
                                        std::vector<std::uint8_t>& buffer) const override {
    ++fetched_[static_cast<std::size_t>(index)];
    const std::string bytes = index == 0 ? "broken" : "P5 2 2 255\n" + std::string(4, static_cast<char>(index));
    buffer.assign(bytes.begin(), bytes.end());
    return buffer;
  }
  const std::vector<int>& fetched() const { return fetched_; }

 private:
  mutable std::vector<int> fetched_;
};

}  // namespace

TEST_CASE("broken images of one split do not count as those of the other") {
  class TwoSplits final : public EncodedImages {
   public:
    TwoSplits() : EncodedImages(Preprocessing({.channels = 1, .height = 2, .width = 2}), OnBroken::skip) {}
    std::int64_t classes() const override { return 1; }
    std::int64_t size(Split split) const override { return split == Split::train ? 40 : 12; }
    std::int64_t label(Split /*split*/, std::int64_t /*index*/) const override { return 0; }
    std::string sample_name(Split /*split*/, std::int64_t index) const override { return std::to_string(index); }
    std::span<const std::uint8_t> encoded(Split split, std::int64_t index,
                                          std::vector<std::uint8_t>& buffer) const override {
      const std::string bytes = index < (split == Split::train ? 3 : 1) ? "broken" : "P5 2 2 255\n****";
      buffer.assign(bytes.begin(), bytes.end());
      return buffer;
    }
  };
  const TwoSplits data;
  for (std::int64_t i = 0; i < 40; ++i) CHECK(first_pixel(data, Split::train, i) == level('*'));
  CHECK(first_pixel(data, Split::test, 0) == level('*'));
}

TEST_CASE("a substitute for a broken image is decoded once in each read") {
  const CountedImages data;
  CHECK(first_pixel(data, Split::train, 0) == level(1));
  CHECK(data.fetched() == std::vector{1, 1, 0});
  CHECK(first_pixel(data, Split::train, 0) == level(1));
  CHECK(data.fetched() == std::vector{2, 2, 0});
}

}  // namespace heddle::test::data_broken_test

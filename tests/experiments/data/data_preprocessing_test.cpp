#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "experiments/data/data_config.h"
#include "framework/error.h"
#include "tests/support/compare/close_to.h"

namespace heddle::test {

namespace {

/// Levels that encode a pixel's position and its channel.
Image numbered(int height, int width, int channels) {
  Image image{.height = height, .width = width, .channels = channels, .pixels = {}};
  for (int i = 0; i < height * width * channels; ++i) image.pixels.push_back(static_cast<std::uint8_t>(i));
  return image;
}

std::vector<float> preprocessed(const Image& image, const ImageShape& shape, const PreprocessingConfig& config) {
  std::vector<float> pixels(static_cast<std::size_t>(shape.size()));
  Preprocessing(shape, config).apply(image, "a", pixels);
  return pixels;
}

void refuses_keys(const PreprocessingConfig& config, std::int64_t channels, const std::string& message) {
  const ImageShape shape{.channels = channels, .height = 2, .width = 2};
  CHECK_THROWS_WITH_AS(Preprocessing(shape, config), message.c_str(), InputError);
}

}  // namespace

TEST_CASE("the default preprocessing of an image in its own size is (x / 255 - 0.5) / 0.5, bit for bit") {
  const Image image = numbered(16, 16, 1);
  const std::vector<float> pixels = preprocessed(image, {.channels = 1, .height = 16, .width = 16}, {});
  for (std::size_t i = 0; i < pixels.size(); ++i)
    CHECK(pixels[i] == (static_cast<float>(image.pixels[i]) - 127.5F) / 127.5F);
}

TEST_CASE("the crop is the centre of the image, before it is resized") {
  const std::vector<float> whole = preprocessed(numbered(7, 8, 1), {.channels = 1, .height = 7, .width = 8}, {});
  const std::vector<float> centre =
      preprocessed(numbered(7, 8, 1), {.channels = 1, .height = 3, .width = 3}, {.crop = 3});
  for (std::size_t y = 0; y < 3; ++y)
    for (std::size_t x = 0; x < 3; ++x) CHECK(centre[y * 3 + x] == whole[(y + 2) * 8 + x + 2]);
  CHECK_THROWS_WITH_AS(preprocessed(numbered(7, 8, 1), {.channels = 1, .height = 3, .width = 3}, {.crop = 8}),
                       "image \"a\": data.preprocessing.crop of 8 x 8 pixels is larger than the image of 7 x 8",
                       InputError);
}

TEST_CASE("colours, mean and scale are those that the network needs") {
  const Image image{.height = 1, .width = 1, .channels = 3, .pixels = {255, 51, 0}};
  const ImageShape shape{.channels = 3, .height = 1, .width = 1};
  CHECK(preprocessed(image, shape, {.colour = ColourOrder::bgr}) ==
        std::vector<float>{-1.0F, (51 - 127.5F) / 127.5F, 1.0F});
  const std::vector<float> imagenet =
      preprocessed(image, shape, {.colour = ColourOrder::bgr, .mean = {0.1, 0.2, 0.3}, .scale = {1, 10, 100}});
  CHECK(imagenet[0] == close_to((0 - 0.1) * 1));
  CHECK(imagenet[1] == doctest::Approx(0).epsilon(1e-5).scale(1));
  CHECK(imagenet[2] == close_to((1 - 0.3) * 100));
  CHECK(preprocessed(image, shape, {.mean = {0}, .scale = {255}})[1] == close_to(51));
}

TEST_CASE("numbers that do not fit the channels are refused") {
  refuses_keys({.mean = {0.5, 0.5}}, 3,
               "data.preprocessing.mean: expected one number or one for each of the 3 channels, got 2");
  refuses_keys({.scale = {1, 1, 1}}, 1, "data.preprocessing.scale: expected one number, got 3");
  refuses_keys({.scale = {1, 0, 1}}, 3,
               "data.preprocessing.scale: expected numbers other than 0: with 0 all images are equal");
  refuses_keys({.colour = ColourOrder::bgr}, 1,
               "data.preprocessing.colour: \"bgr\" needs images of 3 channels, data.image has 1");
}

TEST_CASE("training and evaluation batches are preprocessed alike, after the augmentation") {
  DataConfig config;
  config.synthetic_identities = {.identities = 2, .image = {3, 8, 8}, .train_per_identity = 2, .test_per_identity = 1};
  config.augmentation = {.flip = 1, .brightness = 0.1};
  const std::vector<TrainingSample> samples = {{.index = 1, .step = 3, .position = 0},
                                               {.index = 2, .step = 3, .position = 1}};
  const auto batches = [&](const PreprocessingConfig& preprocessing) {
    config.preprocessing = preprocessing;
    const auto data = make_dataset(config, {1});
    std::vector<float> train(2 * 3 * 8 * 8);
    std::vector<float> test(train.size() / 2);
    read_training_batch(*data, samples, {&config.augmentation, 1}, {1}, train);
    read_batch(*data, Split::test, std::vector<std::int64_t>{1}, test);
    train.insert(train.end(), test.begin(), test.end());
    return train;
  };
  const std::vector<float> standard = batches({});
  const std::vector<float> other = batches({.colour = ColourOrder::bgr, .mean = {0}, .scale = {255}});
  for (std::size_t i = 0; i < standard.size(); ++i)
    REQUIRE(other[i] == close_to((standard[i / 3 * 3 + 2 - i % 3] + 1) * 127.5).epsilon(1e-5));
  config.preprocessing = {.crop = 4};
  CHECK_THROWS_WITH_AS(make_dataset(config, {1}),
                       "data.preprocessing.crop: expected 0, got 4: synthetic faces have the size of data.image",
                       InputError);
}

}  // namespace heddle::test

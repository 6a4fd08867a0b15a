#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include "experiments/data/data_config.h"
#include "framework/error.h"
#include "tests/support/compare/close_to.h"

namespace heddle::test {

namespace {

const ImageShape small_image{.channels = 3, .height = 9, .width = 8};

std::vector<float> ramp() {
  std::vector<float> pixels(static_cast<std::size_t>(small_image.size()));
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<float>(i) / 300 - 0.4F;
  return pixels;
}

std::vector<float> augmented(const AugmentationConfig& config, std::uint64_t index) {
  std::vector<float> pixels = ramp();
  augment(config, small_image, RandomStream({3}, Purpose::augmentation, 5, index), pixels);
  return pixels;
}

float at(const std::vector<float>& pixels, std::int64_t y, std::int64_t x, std::int64_t c) {
  y = std::clamp<std::int64_t>(y, 0, small_image.height - 1);
  x = std::clamp<std::int64_t>(x, 0, small_image.width - 1);
  return pixels[static_cast<std::size_t>((y * small_image.width + x) * small_image.channels + c)];
}

}  // namespace

TEST_CASE("without augmentation an image does not change, and a flip mirrors it") {
  CHECK(augmented({.flip = 0}, 0) == ramp());
  std::vector<float> mirrored = augmented({.flip = 1}, 0);
  CHECK(at(mirrored, 4, 1, 2) == at(ramp(), 4, 6, 2));
  flip_images(small_image, mirrored);
  CHECK(mirrored == ramp());
}

TEST_CASE("half of the images are flipped") {
  int flipped = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) flipped += augmented({}, i) != ramp() ? 1 : 0;
  CHECK(flipped > 430);
  CHECK(flipped < 570);
}

TEST_CASE("a shift moves by whole pixels within its bound and repeats the border") {
  int unmoved = 0;
  for (std::uint64_t i = 0; i < 200; ++i) {
    const std::vector<float> moved = augmented({.flip = 0, .shift = 2}, i);
    bool found = false;
    for (int dy = -2; dy <= 2; ++dy)
      for (int dx = -2; dx <= 2; ++dx) {
        bool equal = true;
        for (std::int64_t y = 0; y < small_image.height; ++y)
          for (std::int64_t x = 0; x < small_image.width; ++x)
            equal = equal && at(moved, y, x, 1) == at(ramp(), y + dy, x + dx, 1);
        found = found || equal;
      }
    CHECK(found);
    unmoved += moved == ramp() ? 1 : 0;
  }
  CHECK(unmoved < 30);
}

TEST_CASE("a warp without rotation or scaling agrees with the plain flip and shift") {
  for (std::uint64_t i = 0; i < 50; ++i) {
    const std::vector<float> plain = augmented({.flip = 0.5, .shift = 2}, i);
    const std::vector<float> warped = augmented({.flip = 0.5, .shift = 2, .scale = 1e-9}, i);
    for (std::size_t k = 0; k < plain.size(); ++k)
      REQUIRE(warped[k] == doctest::Approx(plain[k]).epsilon(1e-4).scale(1));
  }
}

TEST_CASE("rotation and scaling keep the centre and stay within the image's values") {
  const std::vector<float> pixels = ramp();
  const auto [low, high] = std::minmax_element(pixels.begin(), pixels.end());
  for (std::uint64_t i = 0; i < 20; ++i) {
    const std::vector<float> warped = augmented({.flip = 0, .rotation = 30, .scale = 0.2}, i);
    CHECK(warped != pixels);
    for (const float pixel : warped) {
      CHECK(pixel >= *low);
      CHECK(pixel <= *high);
    }
    const float middle = (at(warped, 4, 3, 0) + at(warped, 4, 4, 0)) / 2;
    CHECK(middle == close_to((at(pixels, 4, 3, 0) + at(pixels, 4, 4, 0)) / 2).epsilon(1e-3));
  }
}

TEST_CASE("brightness and contrast are linear, and erasing blanks one rectangle") {
  const std::vector<float> lit = augmented({.flip = 0, .brightness = 0.1, .contrast = 0.2}, 1);
  const std::vector<float> pixels = ramp();
  const float gain = (lit[200] - lit[0]) / (pixels[200] - pixels[0]);
  CHECK(gain > 0.8F);
  CHECK(gain < 1.2F);
  CHECK(std::abs(lit[0] - gain * pixels[0]) <= 0.2F);
  CHECK(lit[100] == close_to(gain * (pixels[100] - pixels[0]) + lit[0]));

  std::int64_t blanks = 0;
  for (std::uint64_t i = 0; i < 50; ++i) {
    const std::vector<float> erased = augmented({.flip = 0, .erase = 1}, i);
    blanks += std::count(erased.begin(), erased.end(), 0.0F);
  }
  CHECK(blanks > 50 * small_image.size() / 100);
  CHECK(blanks < 50 * small_image.size() * 16 / 100);
}

TEST_CASE("switching one augmentation on does not change another's draws") {
  for (std::uint64_t i = 0; i < 20; ++i) {
    const bool alone = augmented({.flip = 0.5}, i) != ramp();
    const std::vector<float> both = augmented({.flip = 0.5, .brightness = 0.01}, i);
    CHECK((both[0] > both[21]) == alone);
  }
}

TEST_CASE("a training batch does not depend on how it is split, and changes with the step") {
  DataConfig config;
  config.synthetic_identities = {
      .identities = 3, .image = {3, 16, 16}, .train_per_identity = 2, .test_per_identity = 1};
  config.augmentation = {.flip = 0.5, .shift = 2, .rotation = 10, .scale = 0.1, .brightness = 0.1, .erase = 0.3};
  const auto data = make_dataset(config, {1});
  const std::vector<std::int64_t> indices = {5, 0, 3, 3, 1};
  const std::size_t image = 16 * 16 * 3;
  const auto read = [&](std::size_t first, std::size_t count, std::int64_t step) {
    std::vector<float> batch(count * image);
    std::vector<TrainingSample> samples;
    for (std::size_t i = first; i < first + count; ++i)
      samples.push_back({.index = indices[i], .step = step, .position = static_cast<std::int64_t>(i)});
    read_training_batch(*data, samples, {&config.augmentation, 1}, {9}, batch);
    return batch;
  };
  const std::vector<float> whole = read(0, 5, 4);
  const std::vector<float> tail = read(2, 3, 4);
  CHECK(std::equal(tail.begin(), tail.end(), whole.begin() + 2 * image));
  CHECK(!std::equal(whole.begin() + 2 * image, whole.begin() + 3 * image, whole.begin() + 3 * image));
  CHECK(read(0, 5, 5) != whole);
}

TEST_CASE("a random crop stays within the image and is as large as its share") {
  // A ramp along x: the visible values give the beginning and the width of the crop.
  std::vector<float> ramp_of_x;
  for (std::int64_t i = 0; i < small_image.size(); ++i)
    ramp_of_x.push_back(static_cast<float>(i / small_image.channels % small_image.width));
  float least = 100;
  float most = -100;
  for (std::uint64_t i = 0; i < 300; ++i) {
    std::vector<float> pixels = ramp_of_x;
    augment({.flip = 0, .crop = 0.25}, small_image, RandomStream({3}, Purpose::augmentation, 5, i), pixels);
    const float step = at(pixels, 4, 4, 0) - at(pixels, 4, 3, 0);
    CHECK(step == close_to(1 / 1.25).epsilon(1e-4));
    least = std::min(least, at(pixels, 4, 1, 0));
    most = std::max(most, at(pixels, 4, 6, 0));
  }
  CHECK(least == close_to(-0.5 + 1.5 / 1.25).epsilon(0.05));
  CHECK(most == close_to(7.5 - 1.5 / 1.25).epsilon(0.05));
}

TEST_CASE("saturation, hue and gray change colours and leave luma and gray pixels alone") {
  const auto luma = [](const std::vector<float>& pixels, std::size_t i) {
    return 0.299F * pixels[i] + 0.587F * pixels[i + 1] + 0.114F * pixels[i + 2];
  };
  std::vector<float> colours = ramp();
  for (std::size_t i = 0; i < colours.size(); i += 3)
    std::rotate(&colours[i], &colours[i + i / 3 % 3], &colours[i] + 3);
  colours[0] = colours[1] = colours[2] = 0.25F;
  const auto changed = [&](const AugmentationConfig& config, std::uint64_t index) {
    std::vector<float> pixels = colours;
    augment(config, small_image, RandomStream({3}, Purpose::augmentation, 5, index), pixels);
    return pixels;
  };
  for (std::uint64_t index = 0; index < 20; ++index) {
    for (const AugmentationConfig& config :
         {AugmentationConfig{.flip = 0, .saturation = 0.5}, AugmentationConfig{.flip = 0, .hue = 0.5},
          AugmentationConfig{.flip = 0, .gray = 1}}) {
      const std::vector<float> pixels = changed(config, index);
      CHECK(pixels != colours);
      CHECK(pixels[1] == close_to(0.25).epsilon(1e-5));
      for (std::size_t i = 0; i < pixels.size(); i += 3)
        CHECK(luma(pixels, i) == close_to(luma(colours, i)).epsilon(1e-4));
    }
    const std::vector<float> gray = changed({.flip = 0, .gray = 1}, index);
    CHECK(gray[3] == close_to(gray[4]));
    const std::vector<float> saturated = changed({.flip = 0, .saturation = 0.5}, index);
    const float factor = (saturated[3] - luma(colours, 3)) / (colours[3] - luma(colours, 3));
    CHECK(factor >= 0.5F);
    CHECK(factor <= 1.5F);
    CHECK(saturated[8] == close_to(luma(colours, 6) + factor * (colours[8] - luma(colours, 6))).epsilon(1e-4));
  }
}

TEST_CASE("erasing by area keeps to its area and to its ratio") {
  const ImageShape shape{.channels = 1, .height = 60, .width = 80};
  double smallest = 1;
  double largest = 0;
  int tall = 0;
  for (std::uint64_t i = 0; i < 300; ++i) {
    std::vector<float> pixels(static_cast<std::size_t>(shape.size()), 1.0F);
    augment({.flip = 0, .erase = 1, .erase_area = {0.04, 0.25}, .erase_ratio = {0.5, 2}}, shape,
            RandomStream({4}, Purpose::augmentation, 0, i), pixels);
    std::int64_t height = 0;
    std::int64_t width = 0;
    for (std::int64_t y = 0; y < 60; ++y) {
      const auto first = pixels.begin() + y * 80;
      const std::int64_t blanks = std::count(first, first + 80, 0.0F);
      width = std::max(width, blanks);
      height += blanks > 0 ? 1 : 0;
    }
    const double area = static_cast<double>(height * width) / (60 * 80);
    CHECK(std::count(pixels.begin(), pixels.end(), 0.0F) == height * width);
    CHECK(static_cast<double>(height) / static_cast<double>(width) > 0.45);
    CHECK(static_cast<double>(height) / static_cast<double>(width) < 2.2);
    smallest = std::min(smallest, area);
    largest = std::max(largest, area);
    tall += height > width ? 1 : 0;
  }
  CHECK(smallest == close_to(0.04).epsilon(0.15));
  CHECK(largest == close_to(0.25).epsilon(0.1));
  CHECK(tall > 110);
  CHECK(tall < 190);
}

TEST_CASE("JPEG compression of lower quality changes the image more") {
  const auto loss = [](std::int64_t quality) {
    std::vector<float> pixels(std::size_t{3} * 32 * 32);
    for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = std::sin(static_cast<float>(i * i) * 0.01F);
    const std::vector<float> before = pixels;
    augment({.flip = 0, .jpeg = 1, .jpeg_quality = {quality, quality}}, {.channels = 3, .height = 32, .width = 32},
            RandomStream({5}, Purpose::augmentation, 0, 0), pixels);
    double sum = 0;
    for (std::size_t i = 0; i < pixels.size(); ++i) sum += std::abs(pixels[i] - before[i]);
    return sum / static_cast<double>(pixels.size());
  };
  CHECK(loss(10) > loss(50));
  CHECK(loss(50) > loss(95));
  CHECK(loss(95) > 0);
}

TEST_CASE("later options do not change the draws of earlier ones") {
  const AugmentationConfig earlier{.flip = 0.5, .shift = 2, .rotation = 10, .erase = 0.5};
  AugmentationConfig later = earlier;
  later.gray = 1;
  for (std::uint64_t i = 0; i < 20; ++i) {
    const std::vector<float> one = augmented(earlier, i);
    const std::vector<float> other = augmented(later, i);
    for (std::size_t k = 0; k < one.size(); k += 3)
      REQUIRE(other[k] == close_to(0.299F * one[k] + 0.587F * one[k + 1] + 0.114F * one[k + 2]).epsilon(1e-4));
  }
}

TEST_CASE("wrong bounds are refused with their key") {
  DataConfig config;
  config.augmentation.erase_area = {0.1};
  CHECK_THROWS_WITH_AS(check(config), "data.augmentation.erase_area: expected a smallest and a largest number, got 1",
                       InputError);
  config.augmentation.erase_area = {};
  config.augmentation.erase_ratio = {1, 2};
  CHECK_THROWS_WITH_AS(check(config), "data.augmentation.erase_ratio: has no effect without erase_area", InputError);
  config.augmentation.erase_ratio = {};
  config.augmentation.jpeg_quality = {50, 40};
  CHECK_THROWS_WITH_AS(check(config), "data.augmentation.jpeg_quality: expected the smaller number first, got [50, 40]",
                       InputError);
}

}  // namespace heddle::test

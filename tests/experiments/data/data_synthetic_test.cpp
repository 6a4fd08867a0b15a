#include <cmath>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>
#include <omp.h>

#include "experiments/data/data_config.h"
#include "experiments/training/evaluation/protocol/identification.h"
#include "tests/support/devices.h"

namespace heddle::test {

namespace {

std::unique_ptr<const Dataset> faces(std::vector<std::int64_t> image, std::int64_t identities, std::int64_t train = 3,
                                     std::int64_t test = 2, std::uint64_t seed = 1) {
  DataConfig config;
  config.synthetic_identities = {
      .identities = identities, .image = std::move(image), .train_per_identity = train, .test_per_identity = test};
  return make_dataset(config, {seed});
}

std::vector<std::int64_t> every_index(const Dataset& data, Split split) {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(data.size(split)));
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

std::vector<float> read_all(const Dataset& data, Split split) {
  const std::vector<std::int64_t> indices = every_index(data, split);
  std::vector<float> pixels(indices.size() * static_cast<std::size_t>(data.image().size()));
  read_batch(data, split, indices, pixels);
  return pixels;
}

}  // namespace

TEST_CASE("synthetic faces depend only on the seed, the person and the number") {
  const auto data = faces({3, 32, 24}, 6);
  const std::vector<float> pixels = read_all(*data, Split::train);
  CHECK(pixels == read_all(*data, Split::train));
  omp_set_num_threads(3);
  CHECK(pixels == read_all(*data, Split::train));
  omp_set_num_threads(1);
  CHECK(pixels == read_all(*faces({3, 32, 24}, 6), Split::train));
  CHECK(pixels != read_all(*faces({3, 32, 24}, 6, 3, 2, 2), Split::train));

  std::vector<float> one(3 * 32 * 24);
  std::vector<float> other(one.size());
  data->read(Split::train, 3 * 5 + 1, one);
  faces({3, 32, 24}, 600, 7, 9)->read(Split::train, 7 * 5 + 1, other);
  CHECK(one == other);
  faces({3, 32, 24}, 600, 7, 9)->read(Split::test, 9 * 5 + 1, other);
  CHECK(one != other);
}

TEST_CASE("labels, sizes and names of synthetic faces agree") {
  const auto data = faces({1, 16, 16}, 4, 3, 2);
  CHECK(data->classes() == 4);
  CHECK(data->size(Split::train) == 12);
  CHECK(data->size(Split::test) == 8);
  CHECK(data->label(Split::train, 11) == 3);
  CHECK(data->label(Split::test, 5) == 2);
  CHECK(data->sample_name(Split::test, 5) == "person 2, test image 1");
  CHECK(labels_of(*data, Split::train, std::vector<std::int64_t>{0, 4, 11}) == std::vector<std::int64_t>{0, 1, 3});
  CHECK_THROWS_WITH(data->label(Split::test, 8), "synthetic identities: sample 8 is out of range, there are 8");
  std::vector<float> small(10);
  CHECK_THROWS_WITH(read_batch(*data, Split::test, std::vector<std::int64_t>{0}, small),
                    "a batch of 1 images of 16 x 16 x 1 needs 256 floats; the buffer holds 10");
}

TEST_CASE("pixels are the levels of an 8-bit image, and gray is the luma of colour") {
  const auto colour = faces({3, 40, 40}, 2);
  const std::vector<float> rgb = read_all(*colour, Split::train);
  double sum = 0;
  double squares = 0;
  for (const float pixel : rgb) {
    REQUIRE(std::abs(pixel) <= 1.0F);
    const float level = (pixel + 1) * 127.5F;
    REQUIRE(std::abs(level - std::round(level)) < 1e-3F);
    sum += pixel;
    squares += static_cast<double>(pixel) * pixel;
  }
  const double mean = sum / static_cast<double>(rgb.size());
  CHECK(squares / static_cast<double>(rgb.size()) - mean * mean > 0.05);
  CHECK(read_all(*faces({1, 40, 40}, 2), Split::train).size() * 3 == rgb.size());
}

TEST_CASE("people differ in shape and cannot be recognised by their mean colour" *
          doctest::test_suite(test::long_under_sanitizers)) {
  const auto data = faces({3, 32, 32}, 50, 8, 4);
  const std::vector<std::int64_t> train_labels = labels_of(*data, Split::train, every_index(*data, Split::train));
  const std::vector<std::int64_t> test_labels = labels_of(*data, Split::test, every_index(*data, Split::test));
  const std::vector<float> train = read_all(*data, Split::train);
  const std::vector<float> test = read_all(*data, Split::test);
  const auto mean_colour = [](const std::vector<float>& pixels) {
    std::vector<float> means(pixels.size() / (32 * 32));
    for (std::size_t i = 0; i < pixels.size(); ++i) means[i / (3 * 32 * 32) * 3 + i % 3] += pixels[i] / (32 * 32);
    return means;
  };
  const double by_colour = rank1({mean_colour(train), train_labels}, {mean_colour(test), test_labels});
  const double by_pixels = rank1({train, train_labels}, {test, test_labels});
  INFO("rank-1 by mean colour " << by_colour << ", by pixels " << by_pixels << ", by chance 0.02");
  CHECK(by_colour < 0.2);
  CHECK(by_pixels > 0.04);
  CHECK(by_pixels < 0.9);
}

}  // namespace heddle::test

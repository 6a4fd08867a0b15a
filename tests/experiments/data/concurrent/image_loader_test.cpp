#include "experiments/data/image_loader.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "experiments/data/data_config.h"
#include "experiments/data/sampler.h"
#include "framework/error.h"

namespace heddle::test {

namespace {

constexpr std::int64_t images_of_set = 50;
constexpr RandomKey seed{4};

/// Images of one pixel. Reading takes longest for those that come first, so that threads overtake each other; some are
/// broken.
class SlowImages final : public Dataset {
 public:
  explicit SlowImages(std::int64_t broken = -1)
      : Dataset(Preprocessing({.channels = 1, .height = 1, .width = 1})), broken_(broken) {}

  std::int64_t classes() const override { return 1; }
  std::int64_t size(Split /*split*/) const override { return images_of_set; }
  std::int64_t label(Split /*split*/, std::int64_t /*index*/) const override { return 0; }
  std::string sample_name(Split /*split*/, std::int64_t index) const override { return std::to_string(index); }
  void read(Split /*split*/, std::int64_t index, std::span<float> pixels) const override {
    ++reads_;
    std::this_thread::sleep_for(std::chrono::microseconds(index % 3 == 0 ? 300 : 10));
    if (index == broken_) fail<InputError>("image \"{}\": broken", index);
    pixels[0] = static_cast<float>(index);
  }
  int reads() const { return reads_; }

 private:
  std::int64_t broken_;
  mutable std::atomic<int> reads_ = 0;
};

std::optional<TrainingSample> in_order(std::int64_t number) {
  if (number >= images_of_set) return {};
  return TrainingSample{.index = number, .step = 0, .position = number};
}

ImageLoader::Options options(int threads, std::int64_t images_ahead) {
  return {.augmentation = {{.flip = 0}}, .key = seed, .threads = threads, .images_ahead = images_ahead};
}

/// The next images, as often as they must be asked for.
std::vector<float> taken_from(ImageLoader& loader, std::int64_t images) {
  std::vector<float> all;
  while (static_cast<std::int64_t>(all.size()) < images) {
    const std::span<const float> some = loader.next(images - static_cast<std::int64_t>(all.size()));
    all.insert(all.end(), some.begin(), some.end());
    loader.release();
  }
  return all;
}

}  // namespace

TEST_CASE("a loader whose samples end does not wait for more") {
  const SlowImages data;
  for (const int threads : {1, 5}) {
    ImageLoader loader(data, in_order, options(threads, 8));
    CHECK(taken_from(loader, images_of_set).size() == images_of_set);
    CHECK_THROWS_WITH_AS((void)loader.next(1), "the loader's samples end after 50, expected 51", Error);
  }
}

TEST_CASE("a loader gives the images in their order, whatever its threads and buffers") {
  const SlowImages data;
  for (const int threads : {1, 2, 5})
    for (const std::int64_t ahead : {1, 2, 7, 100}) {
      CAPTURE(threads);
      CAPTURE(ahead);
      ImageLoader loader(data, in_order, options(threads, ahead));
      std::vector<float> all;
      for (const std::int64_t part : {3, 10, 1, 36}) {
        const std::vector<float> images = taken_from(loader, part);
        all.insert(all.end(), images.begin(), images.end());
      }
      std::vector<float> expected;
      for (std::int64_t i = 0; i < images_of_set; ++i) expected.push_back(static_cast<float>(i));
      CHECK(all == expected);
    }
}

TEST_CASE("a loader augments an image by its step and its position, as a read without one does") {
  DataConfig config;
  config.synthetic_identities = {
      .identities = 3, .image = {3, 16, 16}, .train_per_identity = 2, .test_per_identity = 1};
  config.augmentation = {.flip = 0.5, .shift = 2, .rotation = 10, .brightness = 0.1};
  const auto data = make_dataset(config, {1});
  std::vector<TrainingSample> samples;
  for (std::int64_t i = 0; i < 12; ++i) samples.push_back({.index = i % 6, .step = 3 + i / 4, .position = i % 4});
  std::vector<float> expected(12 * 16 * 16 * 3);
  read_training_batch(*data, samples, {&config.augmentation, 1}, seed, expected);
  const auto sample = [&](std::int64_t number) -> std::optional<TrainingSample> {
    if (number >= static_cast<std::int64_t>(samples.size())) return {};
    return samples[static_cast<std::size_t>(number)];
  };
  ImageLoader loader(*data, sample,
                     {.augmentation = {config.augmentation}, .key = seed, .threads = 3, .images_ahead = 5});
  std::vector<float> all;
  while (all.size() < expected.size()) {
    const std::span<const float> some = loader.next(2);
    all.insert(all.end(), some.begin(), some.end());
    loader.release();
  }
  CHECK(all == expected);
}

TEST_CASE("a loader throws what reading an image threw when that image is asked for, and no earlier") {
  const SlowImages data(20);
  for (const int threads : {1, 4}) {
    ImageLoader loader(data, in_order, options(threads, 64));
    CHECK(taken_from(loader, 20).back() == 19);
    CHECK_THROWS_WITH_AS(taken_from(loader, 5), "image \"20\": broken", InputError);
  }
}

TEST_CASE("a loader reads no further ahead than its buffers, and ends whether or not its images were used") {
  const SlowImages data;
  {
    ImageLoader loader(data, in_order, options(2, 8));
    CHECK(taken_from(loader, 4).size() == 4);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    CHECK(data.reads() <= 12);
  }
  const int reads = data.reads();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(data.reads() == reads);  // no thread is left
}

TEST_CASE("an element of a batch is found without the batch") {
  for (const std::int64_t step : {0, 3, 1000}) {
    const std::vector<std::int64_t> batch = batch_indices(37, 16, step, seed);
    for (std::int64_t i = 0; i < 16; ++i)
      CHECK(batch_index(37, 16, step, i, seed) == batch[static_cast<std::size_t>(i)]);
  }
}

}  // namespace heddle::test

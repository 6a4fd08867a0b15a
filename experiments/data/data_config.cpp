#include "experiments/data/data_config.h"

#include <algorithm>

#include "framework/description/describe.h"
#include "framework/error.h"

namespace heddle {

void describe_data(Describer& d, const char* key, DataConfig& config) {
  tagged(d, key, config.type, data_sets, config, "the images to train and to test on",
         [](Describer& inner, DataConfig& c) {
           object(inner, "preprocessing", c.preprocessing, "how images become what the network takes");
           object(inner, "augmentation", c.augmentation, "random changes to training images");
           object(inner, "loader", c.loader, "how training images are read ahead of the step");
         });
}

ImageShape image_shape(const DataConfig& config) {
  const std::vector<std::int64_t>& image = data_sets[config.type].image(config);
  if (image.size() != 3)
    fail<InputError>("data.image: expected [channels, height, width], got {} numbers", image.size());
  if (std::find(image_channels.begin(), image_channels.end(), image[0]) == image_channels.end())
    fail<InputError>("data.image: expected {}, got {}", image_channels_in_words, image[0]);
  return {.channels = image[0], .height = image[1], .width = image[2]};
}

Preprocessing preprocessing_of(const DataConfig& config) {
  return Preprocessing(image_shape(config), config.preprocessing);
}

void check(const DataConfig& config) {
  (void)preprocessing_of(config);
  check(config.augmentation);
  data_sets[config.type].check(config);
}

std::optional<std::int64_t> known_classes(const DataConfig& config) {
  return data_sets[config.type].known_classes(config);
}

std::unique_ptr<const Dataset> make_dataset(const DataConfig& config, RandomKey seed) {
  check(config);
  return data_sets[config.type].open(config, preprocessing_of(config), seed);
}

}  // namespace heddle

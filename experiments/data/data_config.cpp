#include "experiments/data/data_config.h"

#include <algorithm>

#include "framework/description/describe.h"
#include "framework/error.h"

namespace heddle {

void describe(Describer& d, DataConfig& config) {
  d.field("name", config.name, "the name of the set, required where there are several: letters, digits, _ and -");
  d.field(
      "share", config.share, between(1, 1000),
      "this set's share of each batch where there are several sets: with shares 3 and 1, three of every four samples "
      "are from the first set and one is from the second");
  alternatives(d, config.type, data_sets, config, "the kind of data set", [](Describer& inner, DataConfig& c) {
    object(inner, "preprocessing", c.preprocessing, "how images become the network's input");
    object(inner, "augmentation", c.augmentation, "random changes to training images");
    object(inner, "loader", c.loader, "how training images are read ahead of the step");
  });
}

RandomKey key_of_set(RandomKey key, std::size_t set) {
  if (set == 0) return key;
  const PhiloxBlock block = philox(PhiloxBlock{{static_cast<std::uint32_t>(set), 1, 0, 0}},
                                   static_cast<std::uint32_t>(key.seed), static_cast<std::uint32_t>(key.seed >> 32));
  return {std::uint64_t{block.word[1]} << 32 | block.word[0]};
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

bool is_encoded(const DataConfig& config) {
  return data_sets[config.type].is_encoded;
}

std::unique_ptr<const Dataset> make_dataset(const DataConfig& config, RandomKey seed) {
  check(config);
  return data_sets[config.type].open(config, preprocessing_of(config), seed);
}

}  // namespace heddle

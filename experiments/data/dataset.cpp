#include "experiments/data/dataset.h"

#include <array>

#include "experiments/data/image_folder.h"
#include "experiments/data/parallel_for.h"
#include "experiments/data/synthetic_identities.h"
#include "framework/description/describe.h"
#include "framework/error.h"

namespace heddle {
namespace {

void describe_image(Describer& d, std::vector<std::int64_t>& image) {
  d.field("image", image, between(1, 4096), between(3, 3), "[channels, height, width] of an image; 1 or 3 channels");
}

void describe_synthetic_identities(Describer& d, SyntheticIdentitiesConfig& c) {
  d.field("identities", c.identities, between(2, 1e12), "number of people to draw");
  describe_image(d, c.image);
  d.field("train_per_identity", c.train_per_identity, between(1, 1e6), "training images of each");
  d.field("test_per_identity", c.test_per_identity, between(1, 1e6), "test images of each");
}

void describe_image_folder(Describer& d, ImageFolderConfig& c) {
  d.field(required("path"), c.path, "folder that holds one folder of PGM, PPM, PNG or JPEG files for each identity");
  describe_image(d, c.image);
  d.field(required("train_per_identity"), c.train_per_identity, between(1, 1e6),
          "how many files of each identity, in natural order, are for training");
  d.field("test_per_identity", c.test_per_identity, between(0, 1e6), "how many of the rest are for testing; 0: all");
}

/// [first, first + count) of samples must lie in the buffer, or neighbours would be overwritten.
void check_batch(const Dataset& dataset, std::size_t images, std::size_t floats) {
  const auto needed = images * static_cast<std::size_t>(dataset.image().size());
  if (floats != needed)
    fail("a batch of {} images of {} x {} x {} needs {} floats; the buffer holds {}", images, dataset.image().height,
         dataset.image().width, dataset.image().channels, needed, floats);
}

std::span<float> image_at(const Dataset& dataset, std::span<float> nhwc, std::int64_t i) {
  const auto size = static_cast<std::size_t>(dataset.image().size());
  return nhwc.subspan(static_cast<std::size_t>(i) * size, size);
}

}  // namespace

void describe_data(Describer& d, const char* key, DataConfig& config) {
  const auto augmentation = [&](Describer& inner) {
    object(inner, "augmentation", config.augmentation, "random changes to training images");
  };
  const std::array<Describer::Alternative, 2> alternatives = {{
      {"synthetic_identities", "drawn faces; every image is a function of seed, identity and number",
       [&](Describer& inner) {
         describe_synthetic_identities(inner, config.synthetic_identities);
         augmentation(inner);
       }},
      {"image_folder", "one folder of images for each identity",
       [&](Describer& inner) {
         describe_image_folder(inner, config.image_folder);
         augmentation(inner);
       }},
  }};
  int type = static_cast<int>(config.type);
  d.tagged(key, type, alternatives, "the images to train and to test on");
  config.type = static_cast<DataType>(type);
}

ImageShape image_shape(const DataConfig& config) {
  const std::vector<std::int64_t>& image =
      config.type == DataType::image_folder ? config.image_folder.image : config.synthetic_identities.image;
  if (image.size() != 3)
    fail<InputError>("data.image: [channels, height, width] expected, {} numbers given", image.size());
  if (image[0] != 1 && image[0] != 3)
    fail<InputError>("data.image: 1 (gray) or 3 (colour) channels expected, {} given", image[0]);
  return {.channels = image[0], .height = image[1], .width = image[2]};
}

std::unique_ptr<const Dataset> make_dataset(const DataConfig& config, RandomKey seed) {
  if (config.type == DataType::image_folder)
    return std::make_unique<ImageFolder>(config.image_folder, image_shape(config));
  return std::make_unique<SyntheticIdentities>(config.synthetic_identities, image_shape(config), seed);
}

void read_batch(const Dataset& dataset, Split split, std::span<const std::int64_t> indices, std::span<float> nhwc) {
  check_batch(dataset, indices.size(), nhwc.size());
  parallel_for(static_cast<std::int64_t>(indices.size()), [&](std::int64_t i) {
    dataset.read(split, indices[static_cast<std::size_t>(i)], image_at(dataset, nhwc, i));
  });
}

void read_training_batch(const Dataset& dataset, std::span<const std::int64_t> indices,
                         const AugmentationConfig& augmentation, RandomKey key, std::int64_t step, std::int64_t first,
                         std::span<float> nhwc) {
  check_batch(dataset, indices.size(), nhwc.size());
  parallel_for(static_cast<std::int64_t>(indices.size()), [&](std::int64_t i) {
    const std::span<float> pixels = image_at(dataset, nhwc, i);
    dataset.read(Split::train, indices[static_cast<std::size_t>(i)], pixels);
    const RandomStream draws(key, Purpose::augmentation, static_cast<std::uint64_t>(step),
                             static_cast<std::uint64_t>(first + i));
    augment(augmentation, dataset.image(), draws, pixels);
  });
}

std::vector<std::int64_t> labels_of(const Dataset& dataset, Split split, std::span<const std::int64_t> indices) {
  std::vector<std::int64_t> labels;
  labels.reserve(indices.size());
  for (const std::int64_t index : indices) labels.push_back(dataset.label(split, index));
  return labels;
}

}  // namespace heddle

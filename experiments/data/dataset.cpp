#include "experiments/data/dataset.h"

#include "experiments/data/parallel_for.h"
#include "framework/description/describe.h"
#include "framework/error.h"

namespace heddle {
namespace {

/// The buffer must hold exactly these images, or neighbours would be overwritten.
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

void describe_image(Describer& d, std::vector<std::int64_t>& image) {
  Key key("image");
  key.first = {image_channels, image_channels_in_words};
  d.field(key, image, between(1, 4096), between(3, 3), "[channels, height, width] of an image; 1 or 3 channels");
}

void read_batch(const Dataset& dataset, Split split, std::span<const std::int64_t> indices, std::span<float> nhwc) {
  check_batch(dataset, indices.size(), nhwc.size());
  parallel_for(static_cast<std::int64_t>(indices.size()), [&](std::int64_t i) {
    const std::span<float> pixels = image_at(dataset, nhwc, i);
    dataset.read(split, indices[static_cast<std::size_t>(i)], pixels);
    dataset.preprocessing().normalise(pixels);
  });
}

void read_training_image(const Dataset& dataset, const TrainingSample& sample,
                         std::span<const AugmentationConfig> augmentation, RandomKey key, std::span<float> pixels) {
  const Dataset& set = dataset.set(sample.set);
  set.read(Split::train, sample.index, pixels);
  const RandomStream draws(key, Purpose::augmentation, static_cast<std::uint64_t>(sample.step),
                           static_cast<std::uint64_t>(sample.position));
  augment(augmentation[sample.set], set.image(), draws, pixels);
  set.preprocessing().normalise(pixels);
}

void read_training_batch(const Dataset& dataset, std::span<const TrainingSample> samples,
                         std::span<const AugmentationConfig> augmentation, RandomKey key, std::span<float> nhwc) {
  check_batch(dataset, samples.size(), nhwc.size());
  parallel_for(static_cast<std::int64_t>(samples.size()), [&](std::int64_t i) {
    read_training_image(dataset, samples[static_cast<std::size_t>(i)], augmentation, key, image_at(dataset, nhwc, i));
  });
}

std::vector<std::int64_t> labels_of(const Dataset& dataset, Split split, std::span<const std::int64_t> indices) {
  std::vector<std::int64_t> labels;
  labels.reserve(indices.size());
  for (const std::int64_t index : indices) labels.push_back(dataset.label(split, index));
  return labels;
}

}  // namespace heddle

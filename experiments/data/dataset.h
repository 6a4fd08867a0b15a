// Labelled face images in two splits, and how a batch of them becomes floats. Ranks are threads that share one data
// set: every const member may be called from several threads at once.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/data/augmentation.h"
#include "framework/scalars/random.h"

namespace heddle {

enum class Split { train, test };

class Dataset {
 public:
  explicit Dataset(ImageShape image) : image_(image) {}
  virtual ~Dataset() = default;

  /// What read() writes: height x width rows of `channels` interleaved floats.
  const ImageShape& image() const { return image_; }
  /// Labels are 0 .. classes()-1, the same in both splits.
  virtual std::int64_t classes() const = 0;
  virtual std::int64_t size(Split split) const = 0;
  virtual std::int64_t label(Split split, std::int64_t index) const = 0;
  /// The name of a sample in messages: a file, or "identity 3, training image 5".
  virtual std::string sample_name(Split split, std::int64_t index) const = 0;
  /// Writes one image, pixels (x / 255 - 0.5) / 0.5. Raises InputError with the file's name if it is broken.
  virtual void read(Split split, std::int64_t index, std::span<float> pixels) const = 0;

 private:
  ImageShape image_;
};

/// The numbers of channels that images may have.
inline constexpr std::array<std::int64_t, 2> image_channels{1, 3};
inline constexpr std::string_view image_channels_in_words = "1 (gray) or 3 (colour) channels";

class Describer;
/// The option `image` of a data set: [channels, height, width].
void describe_image(Describer& d, std::vector<std::int64_t>& image);

/// The images at `indices`, in their order, into [indices.size(), height, width, channels] floats. Runs on the calling
/// thread's OpenMP team.
void read_batch(const Dataset& dataset, Split split, std::span<const std::int64_t> indices, std::span<float> nhwc);

/// The same from the training split, augmented. `indices` is a slice of the global batch of `step` that begins at its
/// element `first`: an image's draws depend on its place in the global batch, not on the rank that reads it.
void read_training_batch(const Dataset& dataset, std::span<const std::int64_t> indices,
                         const AugmentationConfig& augmentation, RandomKey key, std::int64_t step, std::int64_t first,
                         std::span<float> nhwc);

/// label() of each index.
std::vector<std::int64_t> labels_of(const Dataset& dataset, Split split, std::span<const std::int64_t> indices);

}  // namespace heddle

// Labelled face images in two splits, and how a batch of them becomes floats. Ranks are threads that share one data
// set: every const member may be called from several threads at once.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "experiments/data/augmentation.h"
#include "experiments/data/preprocessing.h"
#include "framework/scalars/random.h"

namespace heddle {

enum class Split { train, test };

class Dataset {
 public:
  explicit Dataset(Preprocessing preprocessing) : preprocessing_(std::move(preprocessing)) {}
  virtual ~Dataset() = default;

  /// How its images become what a network takes; images from elsewhere that the network is to see need the same.
  const Preprocessing& preprocessing() const { return preprocessing_; }
  /// What read() writes: height x width rows of `channels` interleaved floats.
  const ImageShape& image() const { return preprocessing_.image(); }
  /// Those who train have the labels 0 .. classes()-1, in both splits. People who are tested only have those that
  /// follow.
  virtual std::int64_t classes() const = 0;
  virtual std::int64_t size(Split split) const = 0;
  virtual std::int64_t label(Split split, std::int64_t index) const = 0;
  /// The name of a sample in messages: a file, or "identity 3, training image 5".
  virtual std::string sample_name(Split split, std::int64_t index) const = 0;
  /// Writes one image in the colours and values that augmentation changes: RGB, (x / 255 - 0.5) / 0.5. What then
  /// follows is preprocessing().normalise(). Raises InputError with the file's name if the image is broken.
  virtual void read(Split split, std::int64_t index, std::span<float> pixels) const = 0;

  /// Remarks that the user should read, such as what was left out. There are more of them while images are read.
  virtual std::vector<std::string> notes(std::size_t /*first*/) const { return {}; }
  /// How many images turned out to be broken while they were read, and were replaced.
  virtual std::int64_t broken_images() const { return 0; }

 private:
  Preprocessing preprocessing_;
};

/// The numbers of channels that images may have.
inline constexpr std::array<std::int64_t, 2> image_channels{1, 3};
inline constexpr std::string_view image_channels_in_words = "1 (gray) or 3 (colour) channels";

class Describer;
/// The option `image` of a data set: [channels, height, width].
void describe_image(Describer& d, std::vector<std::int64_t>& image);

/// The images at `indices`, in their order, into [indices.size(), height, width, channels] floats, as the network takes
/// them. Runs on the calling thread's OpenMP team.
void read_batch(const Dataset& dataset, Split split, std::span<const std::int64_t> indices, std::span<float> nhwc);

/// One image of the training split, augmented by `draws`, as the network takes it.
void read_training_image(const Dataset& dataset, std::int64_t index, const AugmentationConfig& augmentation,
                         const RandomStream& draws, std::span<float> pixels);

/// The images of a slice of the training split, augmented. `indices` is a slice of the global batch of `step` that
/// begins at its element `first`: an image's draws depend on its place in the global batch, not on the rank that reads
/// it.
void read_training_batch(const Dataset& dataset, std::span<const std::int64_t> indices,
                         const AugmentationConfig& augmentation, RandomKey key, std::int64_t step, std::int64_t first,
                         std::span<float> nhwc);

/// label() of each index.
std::vector<std::int64_t> labels_of(const Dataset& dataset, Split split, std::span<const std::int64_t> indices);

}  // namespace heddle

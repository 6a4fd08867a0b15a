// Labelled face images in two splits, and how a batch of them becomes floats. Ranks are threads that share one data
// set: every const member may be called from several threads concurrently.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
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

/// What stored images are, wherever they lie. Equal data give equal checksums.
struct ImagesChecksum {
  std::int64_t images = 0;
  std::uint32_t names = 0;  // covers each sample's name within its folder or file, its label and its weight
  std::uint32_t sizes = 0;  // covers the number of bytes of each image

  bool operator==(const ImagesChecksum&) const = default;
};

class Dataset {
 public:
  explicit Dataset(Preprocessing preprocessing) : preprocessing_(std::move(preprocessing)) {}
  virtual ~Dataset() = default;

  /// How its images become what a network takes. Images from elsewhere need the same for that network.
  const Preprocessing& preprocessing() const { return preprocessing_; }
  /// What read() writes: height x width rows of `channels` interleaved floats.
  const ImageShape& image() const { return preprocessing_.image(); }
  /// People with training images have the labels 0 .. classes()-1, in both splits. People who are only tested have the
  /// labels that follow.
  virtual std::int64_t classes() const = 0;
  /// The names of the people with training images, by label; empty if the data have none.
  virtual std::vector<std::string> class_names() const { return {}; }
  virtual std::int64_t size(Split split) const = 0;
  virtual std::int64_t label(Split split, std::int64_t index) const = 0;
  /// Whether a training sample has another weight than 1.
  virtual bool has_weights() const { return false; }
  /// The factor of a training sample's loss.
  virtual double weight(std::int64_t /*index*/) const { return 1; }
  /// The name of a sample in messages: a file, or "person 3, training image 5".
  virtual std::string sample_name(Split split, std::int64_t index) const = 0;
  /// Writes one image in the colours and values that augmentation changes: RGB, (x / 255 - 0.5) / 0.5.
  /// preprocessing().normalise() then follows. Raises InputError with the file's name if the image is broken.
  virtual void read(Split split, std::int64_t index, std::span<float> pixels) const = 0;

  /// Whether images are stored encoded, and may therefore be broken. An ImageReader decides which images are read
  /// ahead.
  virtual bool is_encoded() const { return false; }

  /// The number of data sets of the training, and each of them; this one alone unless there are several. With several,
  /// all other members describe the first set, except for notes, broken images, is_encoded and the checksum.
  virtual std::size_t sets() const { return 1; }
  virtual const Dataset& set(std::size_t /*index*/) const { return *this; }

  /// The checksum of the training images; nothing for generated ones, which their configuration describes.
  virtual std::optional<ImagesChecksum> training_checksum() const { return {}; }

  /// Remarks that the user should read, such as what was left out, from number `first` on. Reading images
  /// may add more of them.
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

/// An image of the training split of a data set, by its index there, in the global batch of a step. Its augmentation
/// depends on the step and on its position in the batch, not on the rank that reads it.
struct TrainingSample {
  std::int64_t index = 0;
  std::int64_t step = 0;
  std::int64_t position = 0;
  std::size_t set = 0;
};

/// The image, augmented, as the network takes it. `augmentation` has one element for each data set.
void read_training_image(const Dataset& dataset, const TrainingSample& sample,
                         std::span<const AugmentationConfig> augmentation, RandomKey key, std::span<float> pixels);

/// The same for several, on the calling thread's OpenMP team.
void read_training_batch(const Dataset& dataset, std::span<const TrainingSample> samples,
                         std::span<const AugmentationConfig> augmentation, RandomKey key, std::span<float> nhwc);

/// label() of each index.
std::vector<std::int64_t> labels_of(const Dataset& dataset, Split split, std::span<const std::int64_t> indices);

}  // namespace heddle

// The base of data sets whose images are encoded as JPEG, PNG or PNM, in files or in records. A derived class says
// where the bytes of a sample are; this one decodes and preprocesses them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "experiments/data/dataset.h"
#include "experiments/data/image.h"

namespace heddle {

class EncodedImages : public Dataset {
 public:
  using Dataset::Dataset;

  /// The bytes of a sample as they are stored. They lie in `buffer` or in memory that the data set keeps, and are valid
  /// until the buffer changes. InputError, which names the sample, if they cannot be read.
  virtual std::span<const std::uint8_t> encoded(Split split, std::int64_t index,
                                                std::vector<std::uint8_t>& buffer) const = 0;

  /// The image of a sample in its own size and channels.
  Image decode(Split split, std::int64_t index) const;
  void read(Split split, std::int64_t index, std::span<float> pixels) const final;
};

}  // namespace heddle

// From a data set's images to the tensors that a model takes, on one rank.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "experiments/training/experiment.h"
#include "parallel/rank.h"

namespace heddle {

class ImageReader {
 public:
  ImageReader(const Experiment& experiment, const Dataset& dataset, const Rank& rank)
      : experiment_(experiment), dataset_(dataset), rank_(rank) {}

  const ImageShape& shape() const { return dataset_.image(); }
  /// The training images of these indices as [n, height, width, channels], augmented for the step. The first of them is
  /// number `first` of the global batch.
  Tensor read(std::span<const std::int64_t> indices, std::int64_t step, std::int64_t first);
  /// Host pixels [n, height, width, channels] as a tensor that the model takes; on plan without data.
  Tensor to_device(std::span<const float> pixels, std::int64_t images) const;

 private:
  const Experiment& experiment_;
  const Dataset& dataset_;
  const Rank& rank_;
  std::vector<float> pixels_;  // host staging of a piece of a micro-batch
};

}  // namespace heddle

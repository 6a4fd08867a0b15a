// From a data set's images to the tensors that a model takes, on one rank. Encoded training images, and on a GPU all,
// are read ahead of the step by the threads of a loader; others, and all with data.loader.prefetch = 0, by the
// computing threads when the step needs them.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "experiments/data/image_loader.h"
#include "experiments/data/training_batches.h"
#include "experiments/training/experiment.h"
#include "parallel/communicator/tracer.h"
#include "parallel/rank.h"

namespace heddle {

/// The positions in the global batch of those images of a micro-batch that this rank takes.
struct LoadedPart {
  int micro_batch = 0;
  IndexRange positions;
};

class ImageReader {
 public:
  /// `parts` are what this rank reads in each step, in its order.
  ImageReader(const Experiment& experiment, const Dataset& dataset, const Rank& rank, Tracer& tracer,
              std::vector<LoadedPart> parts);

  const ImageShape& shape() const { return dataset_.image(); }
  /// The training images of this rank's part of a micro-batch as [n, height, width, channels], augmented. Waits for the
  /// loader, which reads ahead only where parts are asked for in their order. If an image is broken, this and all
  /// later calls return gray images: the ranks end the step before they end the run.
  Tensor read(std::int64_t step, int micro_batch);
  /// Whether this rank has read a broken image.
  bool has_broken_image() const { return error_ != nullptr; }
  /// Records an image that was read elsewhere and is broken: `error` is its InputError.
  void record_broken(std::exception_ptr error) { error_ = std::move(error); }
  /// Throws the InputError of the broken image, if there is one.
  void throw_if_broken() const;
  /// Host pixels [n, height, width, channels] as a tensor that the model takes; on plan without data.
  Tensor to_device(std::span<const float> pixels, std::int64_t images) const;
  /// The seconds by the rank's clock in which `read` has waited for images so far; without a loader, those in which it
  /// has read them.
  double waited_seconds() const { return waited_; }

 private:
  /// The index in `parts_` of this rank's part of a micro-batch.
  std::size_t part_of(int micro_batch) const;
  /// Whether threads read images before the step needs them.
  bool reads_ahead() const;
  void read_now(std::int64_t step, const IndexRange& positions, Tensor& images);
  void take_from_loader(std::int64_t step, std::size_t part, Tensor& images);
  /// Makes the loader of all that follows from a part of a step on.
  void start_loader(std::int64_t step, std::size_t part);

  const Experiment& experiment_;
  const Dataset& dataset_;
  const Rank& rank_;
  Tracer& tracer_;
  TrainingBatches batches_;
  std::vector<AugmentationConfig> augmentation_{};  // of each data set
  std::vector<LoadedPart> parts_;
  std::vector<float> pixels_;  // host staging of a piece of a micro-batch, without a loader
  double waited_ = 0;
  std::exception_ptr error_;             // of the first broken image
  std::unique_ptr<ImageLoader> loader_;  // null until a part is read ahead
  // What the loader gives next.
  std::int64_t next_step_ = 0;
  std::size_t next_part_ = 0;
};

}  // namespace heddle

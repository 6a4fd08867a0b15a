#include "experiments/training/image_reader.h"

#include <algorithm>
#include <utility>

#include "experiments/training/ranks/world_options.h"
#include "experiments/training/span_names.h"
#include "framework/ops/elementwise.h"
#include "framework/tensors/device.h"

namespace heddle {

ImageReader::ImageReader(const Experiment& experiment, const Dataset& dataset, const Rank& rank, Tracer& tracer,
                         std::vector<LoadedPart> parts)
    : experiment_(experiment),
      dataset_(dataset),
      rank_(rank),
      tracer_(tracer),
      batches_(dataset, experiment.shares(), experiment.train.batch, rank.key),
      parts_(std::move(parts)) {
  for (std::size_t set = 0; set < dataset.sets(); ++set) augmentation_.push_back(experiment.data_of(set).augmentation);
}

Tensor ImageReader::to_device(std::span<const float> pixels, std::int64_t images) const {
  const ImageShape& image = dataset_.image();
  const Shape shape{images, image.height, image.width, image.channels};
  const Tensor x = rank_.device.has_data() ? Tensor::from_host(rank_.device, shape, pixels)
                                           : Tensor::empty(rank_.device, shape, DType::f32);
  return cast(Variable(x), experiment_.precision().activations).value();
}

std::size_t ImageReader::part_of(int micro_batch) const {
  for (std::size_t i = 0; i < parts_.size(); ++i)
    if (parts_[i].micro_batch == micro_batch) return i;
  fail("rank {} reads no images of micro-batch {}", rank_.index, micro_batch);
}

Tensor ImageReader::read(std::int64_t step, int micro_batch) {
  const std::size_t part = part_of(micro_batch);
  const IndexRange& positions = parts_[part].positions;
  const ImageShape& image = dataset_.image();
  Tensor images = Tensor::empty(rank_.device, {positions.size, image.height, image.width, image.channels}, DType::f32);
  if (rank_.device.has_data() && positions.size > 0) {
    try {
      if (error_ != nullptr)
        images = Tensor::zeros(rank_.device, images.shape(), DType::f32);
      else if (reads_ahead())
        take_from_loader(step, part, images);
      else
        read_now(step, positions, images);
    } catch (const InputError&) {
      if (!dataset_.is_encoded()) throw;  // generated images cannot be broken
      error_ = std::current_exception();
      images = Tensor::zeros(rank_.device, images.shape(), DType::f32);
    }
  }
  return cast(Variable(images), experiment_.precision().activations).value();
}

bool ImageReader::reads_ahead() const {
  // Where the CPU computes, generating images ahead would take the time from the network.
  return experiment_.data.loader.prefetch > 0 && (dataset_.is_encoded() || experiment_.device == DeviceType::cuda);
}

void ImageReader::throw_if_broken() const {
  if (error_ != nullptr) std::rethrow_exception(error_);
}

void ImageReader::read_now(std::int64_t step, const IndexRange& positions, Tensor& images) {
  const double before = rank_.clock.now();
  // Piece by piece through a small buffer, because the meter does not count memory of the host.
  constexpr std::int64_t piece_floats = std::int64_t{4} << 20;
  const std::int64_t image_floats = dataset_.image().size();
  const std::int64_t piece = std::max<std::int64_t>(piece_floats / image_floats, 1);
  for (std::int64_t begin = 0; begin < positions.size; begin += piece) {
    const std::int64_t end = std::min(begin + piece, positions.size);
    std::vector<TrainingSample> samples;
    for (std::int64_t i = begin; i < end; ++i) samples.push_back(batches_.sample(step, positions.begin + i));
    pixels_.resize(static_cast<std::size_t>((end - begin) * image_floats));
    read_training_batch(dataset_, samples, augmentation_, rank_.key, pixels_);
    images.rows(begin, end).load_bytes(std::as_bytes(std::span(pixels_)));
  }
  waited_ += rank_.clock.now() - before;
}

void ImageReader::take_from_loader(std::int64_t step, std::size_t part, Tensor& images) {
  if (loader_ == nullptr || step != next_step_ || part != next_part_) start_loader(step, part);
  const std::int64_t count = parts_[part].positions.size;
  for (std::int64_t begin = 0; begin < count;) {
    const double before = rank_.clock.now();
    std::span<const float> pixels;
    {
      const Tracer::Computing span(tracer_, span_names::loader_wait);
      pixels = loader_->next(count - begin);
    }
    waited_ += rank_.clock.now() - before;
    const std::int64_t end = begin + static_cast<std::int64_t>(pixels.size()) / dataset_.image().size();
    images.rows(begin, end).load_bytes(std::as_bytes(pixels));
    loader_->release();
    begin = end;
  }
  do {
    next_part_ = (next_part_ + 1) % parts_.size();
    if (next_part_ == 0) ++next_step_;
  } while (parts_[next_part_].positions.size == 0);
}

void ImageReader::start_loader(std::int64_t step, std::size_t part) {
  std::vector<std::int64_t> step_positions;
  std::int64_t done_in_step = 0;
  for (std::size_t i = 0; i < parts_.size(); ++i)
    for (std::int64_t k = 0; k < parts_[i].positions.size; ++k) {
      step_positions.push_back(parts_[i].positions.begin + k);
      if (i < part) ++done_in_step;
    }
  const auto in_step = static_cast<std::int64_t>(step_positions.size());
  const std::int64_t end_step = std::max(experiment_.train.steps, step + 1);
  const auto samples = [=, this,
                        positions = std::move(step_positions)](std::int64_t number) -> std::optional<TrainingSample> {
    const std::int64_t from_step = number + done_in_step;
    const std::int64_t at = step + from_step / in_step;
    if (at >= end_step) return {};
    return batches_.sample(at, positions[static_cast<std::size_t>(from_step % in_step)]);
  };
  next_step_ = step;
  next_part_ = part;
  const LoaderConfig& config = experiment_.data.loader;
  loader_.reset();  // before its successor takes memory and cores
  loader_ = std::make_unique<ImageLoader>(
      dataset_, samples,
      ImageLoader::Options{.augmentation = augmentation_,
                           .key = rank_.key,
                           .threads = static_cast<int>(config.threads > 0 ? config.threads : threads_of(experiment_)),
                           .images_ahead = config.prefetch * in_step});
}

}  // namespace heddle

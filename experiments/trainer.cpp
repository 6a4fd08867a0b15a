#include "experiments/trainer.h"

#include <algorithm>
#include <cmath>

#include "experiments/data/sampler.h"
#include "framework/device.h"
#include "framework/learning_rate.h"
#include "framework/ops/elementwise.h"

namespace heddle {

Trainer::Trainer(const Experiment& experiment, const Dataset& dataset, Rank& rank, Tracer& tracer)
    : Trainer(experiment, dataset, rank, tracer,
              [&](Construction& construction) { return make_model(experiment.model, dataset.image(), construction); }) {
}

Trainer::Trainer(const Experiment& experiment, const Dataset& dataset, Rank& rank, Tracer& tracer,
                 const ModelMaker& make_backbone)
    : experiment_(experiment), dataset_(dataset), rank_(rank), tracer_(tracer) {
  Construction construction{rank.device, rank.key, experiment.dtype()};
  backbone_ = make_backbone(construction);
  head_ = std::make_unique<Head>(experiment.head, experiment.model.embedding, rank.along(Axis::dp), construction);
  std::vector<Trained> trained;
  for (const Parameter* parameter : parameters())
    if (parameter->trainable) trained.push_back({parameter->name, parameter->value, parameter->is_norm_or_bias});
  optimizer_ = make_optimizer(experiment.train.optimizer, std::move(trained));
}

std::vector<Parameter*> Trainer::parameters() {
  std::vector<Parameter*> all = backbone_.parameters();
  for (Parameter* parameter : head_->parameters()) all.push_back(parameter);
  return all;
}

Tensor Trainer::to_device(std::span<const float> pixels, std::int64_t images) {
  const ImageShape& image = dataset_.image();
  const Shape shape{images, image.height, image.width, image.channels};
  const Tensor x = rank_.device.has_data() ? Tensor::from_host(rank_.device, shape, pixels)
                                           : Tensor::empty(rank_.device, shape, DType::f32);
  return cast(Variable(x), experiment_.dtype()).value();
}

Tensor Trainer::read_images(std::span<const std::int64_t> indices, std::int64_t step, std::int64_t first) {
  // Piece by piece through a small buffer, for no meter sees the host's.
  constexpr std::int64_t piece_floats = std::int64_t{4} << 20;
  const ImageShape& image = dataset_.image();
  const auto images = static_cast<std::int64_t>(indices.size());
  const std::int64_t piece = std::max<std::int64_t>(piece_floats / image.size(), 1);
  const Tensor x = Tensor::empty(rank_.device, {images, image.height, image.width, image.channels}, DType::f32);
  for (std::int64_t begin = 0; rank_.device.has_data() && begin < images; begin += piece) {
    const std::int64_t end = std::min(begin + piece, images);
    const auto part = indices.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
    pixels_.resize(static_cast<std::size_t>((end - begin) * image.size()));
    read_training_batch(dataset_, part, experiment_.data.augmentation, rank_.key, step, first + begin, pixels_);
    x.rows(begin, end).load_bytes(std::as_bytes(std::span(pixels_)));
  }
  return cast(Variable(x), experiment_.dtype()).value();
}

std::optional<double> Trainer::micro_batch(std::int64_t step, std::span<const std::int64_t> batch, std::int64_t index) {
  const auto size = static_cast<std::int64_t>(batch.size());
  // The batch falls into sample groups, micro-batch by micro-batch and in each rank by rank: the same groups as those
  // of one rank with ranks * micro_batches micro-batches, also where they do not divide the batch.
  const int ranks = rank_.along(Axis::dp).size();
  const std::int64_t groups = experiment_.train.micro_batches * ranks;
  std::vector<std::int64_t> rows;
  for (int rank = 0; rank < ranks; ++rank) rows.push_back(shard(size, groups, index * ranks + rank).size);
  const ShardRange mine = shard(size, groups, index * ranks + rank_.along(Axis::dp).rank());
  const std::int64_t first = mine.begin;
  const auto indices = batch.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(mine.size));

  const Pass pass{.rank = rank_, .training = true, .step = step, .first_sample = first};
  const Tensor images = [&] {
    const Tracer::Computing span(tracer_, "load");
    return read_images(indices, step, first);
  }();
  const Variable embedding = [&] {
    const Tracer::Computing span(tracer_, "forward");
    return backbone_.forward(Variable(images), pass);
  }();
  const std::vector<std::int64_t> labels = labels_of(dataset_, Split::train, indices);
  HeadOutput output = head_->forward_backward(
      {.embedding = embedding.value(), .labels = labels, .rows = rows, .first_sample = first, .global_batch = size});
  {
    const Tracer::Computing span(tracer_, "backward");
    backward({{embedding, std::move(output.embedding_gradient)}});
  }
  if (!rank_.device.has_data()) return {};
  return output.loss_sum.item();
}

std::optional<double> Trainer::compute_gradients(std::int64_t step) {
  const std::vector<std::int64_t> batch =
      batch_indices(dataset_.size(Split::train), experiment_.train.batch, step, rank_.key);
  std::optional<double> loss;
  for (std::int64_t i = 0; i < experiment_.train.micro_batches; ++i)
    if (const std::optional<double> part = micro_batch(step, batch, i)) loss = loss.value_or(0) + *part;
  {
    const Tracer::Computing span(tracer_, "head weight");
    head_->store_weight_gradient();
  }
  sum_gradients();
  return loss;
}

void Trainer::sum_gradients() {
  if (rank_.along(Axis::dp).size() == 1) return;
  const MemoryScope scope(rank_.device, Category::gradients);
  for (Parameter* parameter : parameters()) {
    if (!parameter->trainable || parameter->holding == Holding::sharded) continue;
    Accumulator& accumulator = *parameter->gradient;
    const Tensor sum = rank_.along(Axis::dp).all_reduce(accumulator.gradient());
    accumulator.set(sum);
  }
}

std::optional<double> Trainer::clip_gradients() {
  const ClipConfig& clip = experiment_.train.clip;
  Device& device = rank_.device;
  std::vector<Tensor> gradients;
  std::vector<Tensor> sharded;
  for (Parameter* parameter : parameters()) {
    if (!parameter->gradient->gradient().defined()) continue;
    (parameter->holding == Holding::sharded ? sharded : gradients).push_back(parameter->gradient->gradient());
  }
  const auto for_all = [&](auto&& change) {
    for (Tensor& gradient : gradients) change(gradient);
    for (Tensor& gradient : sharded) change(gradient);
  };
  if (clip.value > 0) for_all([&](Tensor& g) { device.backend().training().clamp(g, clip.value); });
  if (clip.norm == 0) return {};
  const MemoryScope scope(device, Category::workspace);
  Tensor squares = Tensor::zeros(device, {1}, DType::f64);
  Tensor sharded_squares = Tensor::zeros(device, {1}, DType::f64);
  for (const Tensor& g : gradients) device.backend().training().add_squared_norm(g, squares);
  for (const Tensor& g : sharded) device.backend().training().add_squared_norm(g, sharded_squares);
  sharded_squares = rank_.along(Axis::dp).all_reduce(sharded_squares);
  // On plan the norm is unknown; scaling is counted as if it were too large.
  const double norm = device.has_data() ? std::sqrt(squares.item() + sharded_squares.item()) : clip.norm * 2;
  if (norm > clip.norm)
    for_all([&](Tensor& g) { device.backend().elementwise().scale_add(clip.norm / norm, g, 0, g); });
  return norm;
}

Trainer::Update Trainer::apply_gradients(std::int64_t step) {
  const TrainConfig& train = experiment_.train;
  Update update;
  update.gradient_norm = clip_gradients();
  update.learning_rate = learning_rate(train.schedule, train.optimizer.learning_rate, step, train.steps);
  std::vector<Tensor> gradients;
  for (const Parameter* parameter : parameters())
    if (parameter->trainable) gradients.push_back(parameter->gradient->gradient());
  const Tracer::Computing span(tracer_, "optimizer");
  optimizer_->step(step, update.learning_rate, gradients);
  for (const Parameter* parameter : parameters()) parameter->gradient->clear();
  backbone_.end_step(rank_);
  return update;
}

Tensor Trainer::embed(const Tensor& images) {
  const NoGrad no_grad(rank_.device);
  const Pass pass{.rank = rank_, .training = false, .step = 0, .first_sample = 0};
  return backbone_.forward(Variable(images), pass).value();
}

}  // namespace heddle

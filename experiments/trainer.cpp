#include "experiments/trainer.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "experiments/data/sampler.h"
#include "experiments/placement.h"
#include "framework/device.h"
#include "framework/learning_rate.h"
#include "framework/ops/elementwise.h"
#include "parallel/flat_shard.h"

namespace heddle {

int owner(const ParameterPart& part, const Rank& rank) {
  AxisSet alike = every_axis;
  part.sharded.for_each([&](Axis axis) { alike.erase(axis); });
  return rank.mesh.ranks_over(alike, rank.index).front();
}

Trainer::Trainer(const Experiment& experiment, const Dataset& dataset, Rank& rank, Tracer& tracer)
    : Trainer(experiment, dataset, rank, tracer,
              std::make_shared<ModelDescription>(make_model(experiment.model, dataset.image()))) {}

Trainer::Trainer(const Experiment& experiment, const Dataset& dataset, Rank& rank, Tracer& tracer,
                 std::shared_ptr<const ModelDescription> backbone)
    : experiment_(experiment), dataset_(dataset), rank_(rank), tracer_(tracer) {
  Construction construction{rank.device, rank.key, experiment.dtype()};
  const std::int64_t embedding = embedding_size(*backbone);
  auto plan = std::make_shared<PlacementPlan>(plan_of(*backbone, experiment, rank.mesh));
  backbone_ = Model(backbone, std::move(plan), rank.coordinates, construction);
  construction.next_stream += backbone->streams();
  head_ = std::make_unique<Head>(experiment.head, embedding, rank, construction);
  check_names();
  std::vector<PartialGradient> partial;
  std::vector<Trained> trained;
  for (const Parameter* parameter : parameters()) {
    if (!parameter->trainable) continue;
    Communicator& ranks = rank.over(parameter->part.partial);
    const bool sharded = shards_step(*parameter);
    partial.push_back({parameter->value, parameter->gradient, &ranks, sharded});
    trained.push_back({parameter->name, sharded ? flat_shard(parameter->value, ranks) : parameter->value,
                       parameter->is_norm_or_bias});
  }
  buckets_ = std::make_unique<GradientBuckets>(std::move(partial), experiment.train.bucket_bytes);
  optimizer_ = make_optimizer(experiment.train.optimizer, std::move(trained));
}

void Trainer::check_names() {
  std::set<std::string> names;
  const auto check = [&](const std::string& name) {
    if (!names.insert(name).second)
      fail<InputError>("model: two parameters or statistics have the name {}: name the layers otherwise", name);
  };
  for (const Parameter* parameter : parameters()) check(parameter->name);
  for (const Buffer* buffer : buffers()) check(buffer->name);
}

bool Trainer::shards_step(const Parameter& parameter) const {
  return experiment_.train.shard == ShardedState::optimizer && parameter.trainable && !parameter.part.partial.empty();
}

ParameterPart Trainer::stepped_part(const Parameter& parameter) const {
  ParameterPart part = parameter.part;
  if (!shards_step(parameter)) return part;
  const Communicator& ranks = rank_.over(part.partial);
  const ShardRange range = flat_range(parameter.value, ranks, ranks.rank());
  part.elements = ShardRange{part.elements.value_or(ShardRange{}).begin + range.begin, range.size};
  part.partial.for_each([&](Axis axis) { part.sharded.insert(axis); });
  return part;
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

ShardRange Trainer::input_rows(std::int64_t samples) const {
  return local_box({samples}, backbone_.plan().input, rank_.mesh, rank_.coordinates)[0];
}

ShardRange Trainer::output_rows(std::int64_t samples, int rank) const {
  return local_box({samples}, backbone_.plan().output, rank_.mesh, rank_.mesh.coordinates(rank))[0];
}

ShardRange Trainer::micro_batch_samples(std::int64_t index) const {
  // The batch falls into sample groups, micro-batch by micro-batch and in each rank by rank along dp: the same groups
  // as those of one rank with ranks * micro_batches micro-batches, also where they do not divide the batch.
  const std::int64_t batch = experiment_.train.batch;
  const std::int64_t ranks = rank_.mesh.size(Axis::dp);
  const std::int64_t groups = experiment_.train.micro_batches * ranks;
  const std::int64_t begin = shard(batch, groups, index * ranks).begin;
  return {begin, shard(batch, groups, index * ranks + ranks - 1).end() - begin};
}

std::optional<double> Trainer::micro_batch(std::int64_t step, std::span<const std::int64_t> batch, std::int64_t index) {
  const ShardRange samples = micro_batch_samples(index);
  const auto indices = [&](const ShardRange& rows) {
    return batch.subspan(static_cast<std::size_t>(samples.begin + rows.begin), static_cast<std::size_t>(rows.size));
  };
  const ShardRange taken = input_rows(samples.size);
  const ShardRange given = output_rows(samples.size, rank_.index);
  std::vector<std::int64_t> rows;
  for (int rank = 0; rank < rank_.size; ++rank) rows.push_back(output_rows(samples.size, rank).size);

  const Pass pass{.rank = rank_, .training = true, .step = step, .samples = samples};
  const Tensor images = [&] {
    const Tracer::Computing span(tracer_, "load");
    return read_images(indices(taken), step, samples.begin + taken.begin);
  }();
  const Variable embedding = [&] {
    const Tracer::Computing span(tracer_, "forward");
    return backbone_.forward(Variable(images), pass);
  }();
  const std::vector<std::int64_t> labels = labels_of(dataset_, Split::train, indices(given));
  HeadOutput output = head_->forward_backward({.embedding = embedding.value(),
                                               .labels = labels,
                                               .rows = rows,
                                               .first_sample = samples.begin + given.begin,
                                               .global_batch = experiment_.train.batch});
  if (index + 1 == experiment_.train.micro_batches) buckets_->begin();
  {
    const Tracer::Computing span(tracer_, "backward");
    // A backbone without parameters leads nowhere: the head alone learns.
    if (embedding.leads().anywhere()) backward({{embedding, std::move(output.embedding_gradient)}});
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
  buckets_->finish();
  return loss;
}

double Trainer::gradient_norm() {
  // A square a parameter, added in model order; what several ranks hold alike counts on the first of them.
  const std::vector<Parameter*> all = parameters();
  Tensor squares = Tensor::zeros(rank_.device, {static_cast<std::int64_t>(all.size())}, DType::f64);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Tensor& gradient = all[i]->gradient->gradient();
    if (!gradient.defined() || owner(stepped_part(*all[i]), rank_) != rank_.index) continue;
    Tensor square = squares.rows(static_cast<std::int64_t>(i), static_cast<std::int64_t>(i) + 1);
    rank_.device.backend().training().add_squared_norm(gradient, square);
  }
  if (rank_.size > 1) squares = rank_.world.all_reduce(squares);
  // On plan the norm is unknown; scaling is counted as if it were too large.
  if (!rank_.device.has_data()) return 2 * experiment_.train.clip.norm;
  const std::vector<double> values = squares.to_doubles();
  return std::sqrt(std::accumulate(values.begin(), values.end(), 0.0));
}

std::optional<double> Trainer::clip_gradients() {
  const ClipConfig& clip = experiment_.train.clip;
  const MemoryScope scope(rank_.device, Category::workspace);
  const auto for_all = [&](auto&& change) {
    for (Parameter* parameter : parameters())
      if (Tensor gradient = parameter->gradient->gradient(); gradient.defined()) change(gradient);
  };
  const Backend& backend = rank_.device.backend();
  if (clip.value > 0) for_all([&](Tensor& g) { backend.training().clamp(g, clip.value); });
  if (clip.norm == 0) return {};
  const double norm = gradient_norm();
  if (norm > clip.norm) for_all([&](Tensor& g) { backend.elementwise().scale_add(clip.norm / norm, g, 0, g); });
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
  std::vector<FlatSharded> stepped;
  for (const Parameter* parameter : parameters())
    if (shards_step(*parameter)) stepped.push_back({parameter->value, &rank_.over(parameter->part.partial)});
  gather_shards(stepped, train.bucket_bytes);
  for (const Parameter* parameter : parameters()) parameter->gradient->clear();
  backbone_.end_step(rank_);
  return update;
}

Tensor Trainer::embed(const Tensor& images, std::int64_t samples) {
  const NoGrad no_grad(rank_.device);
  const Pass pass{.rank = rank_, .training = false, .step = 0, .samples = {0, samples}};
  return backbone_.forward(Variable(images), pass).value();
}

}  // namespace heddle

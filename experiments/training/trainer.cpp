#include "experiments/training/trainer.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "experiments/data/sampler.h"
#include "framework/ops/elementwise.h"
#include "framework/optimizers/learning_rate.h"
#include "framework/tensors/device.h"
#include "parallel/placement/flat_shard.h"

namespace heddle {

int owner(const ParameterPart& part, const Rank& rank) {
  return rank.mesh.ranks_over(every_axis.without(part.sharded), rank.index).front();
}

Trainer::Trainer(const Experiment& experiment, const Dataset& dataset, Rank& rank, Tracer& tracer,
                 std::shared_ptr<const RunPlan> plan)
    : experiment_(experiment),
      dataset_(dataset),
      rank_(rank),
      tracer_(tracer),
      plan_(std::move(plan)),
      construction_{rank.device, rank.key, experiment.precision()},
      models_(plan_, rank, construction_),
      images_(experiment, dataset, rank) {
  construction_.next_stream = plan_->model->streams();
  construction_.precision = construction_.precision.wide();  // after the model
  if (experiment.head.is_everywhere() || rank.coordinates.pp == plan_->last_rank())
    head_ = std::make_unique<Head>(
        experiment.head, experiment.train.forward_only ? OptimizerConfig{.momentum = 0} : experiment.train.optimizer,
        embedding_size(*plan_->model), rank, construction_);
  if (experiment.head.samples())
    sample_shards_ = experiment.head.sample.shards_over(rank.mesh.size(experiment.head.class_axes()));
  check_names();
  if (!experiment.train.forward_only) make_optimizer_and_buckets();
  if (experiment.has_loss_scale()) loss_scale_.emplace(experiment.train.loss_scale);
}

void Trainer::make_optimizer_and_buckets() {
  std::vector<PartialGradient> partial;
  std::vector<PartialGradient> late;
  std::vector<Trained> trained;
  const std::size_t of_models = models_.parameters().size();
  const std::vector<Parameter*> all = parameters();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Parameter* parameter = all[i];
    if (!parameter->trainable) continue;
    Communicator& ranks = rank_.over(parameter->part.partial);
    const bool sharded = shards_step(*parameter);
    (i < of_models ? partial : late).push_back({parameter->value, parameter->gradient, &ranks, sharded});
    trained.push_back({parameter->name, sharded ? flat_shard(parameter->value, ranks) : parameter->value,
                       parameter->is_norm_or_bias});
    if (size_of(parameter->value.dtype()) == 2)
      trained.back().rounding = {rank_.key, parameter->stream, weight_rows(stepped_part(*parameter))};
  }
  buckets_ = std::make_unique<GradientBuckets>(std::move(partial), experiment_.train.bucket_bytes);
  head_buckets_ = std::make_unique<GradientBuckets>(std::move(late), experiment_.train.bucket_bytes);
  optimizer_ = make_optimizer(experiment_.train.optimizer, std::move(trained));
}

void Trainer::check_names() {
  std::set<std::string> names;
  const auto check = [&](const std::string& name) {
    if (!names.insert(name).second)
      fail<InputError>("model: two parameters or statistics have the name {}: name the layers otherwise", name);
  };
  for (const StateTensor& tensor : head_state()) check(tensor.name);
  for (const Parameter* parameter : models_.parameters()) check(parameter->name);
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

std::vector<StateTensor> Trainer::state_of(const std::vector<Parameter*>& parameters) const {
  std::vector<StateTensor> states;
  std::map<std::string, ParameterPart, std::less<>> stepped;
  for (const Parameter* parameter : parameters) {
    states.push_back({parameter->name, parameter->value, parameter->part});
    stepped.emplace(parameter->name, stepped_part(*parameter));
  }
  if (optimizer_)
    for (const Optimizer::State& state : optimizer_->state())
      if (const auto found = stepped.find(state.weight); found != stepped.end())
        states.push_back({state.name, state.value, found->second});
  return states;
}

std::vector<StateTensor> Trainer::backbone_state() {
  std::vector<StateTensor> states = state_of(models_.parameters());
  for (const Buffer* buffer : models_.buffers()) states.push_back({buffer->name, buffer->value, buffer->part});
  return states;
}

std::vector<StateTensor> Trainer::head_state() {
  if (!head_) return {};
  std::vector<StateTensor> states = state_of(head_->parameters());
  for (StateTensor& state : head_->state()) states.push_back(std::move(state));
  return states;
}

void Trainer::check_finite(std::int64_t step) {
  if (!rank_.device.has_data()) return;
  std::vector<StateTensor> states = backbone_state();
  for (StateTensor& state : head_state()) states.push_back(std::move(state));
  // The scales of quantised weights are among them.
  std::erase_if(states, [](const StateTensor& state) { return !is_floating(state.value.dtype()); });
  const MemoryScope scope(rank_.device, Category::workspace);
  Tensor squares = Tensor::zeros(rank_.device, {static_cast<std::int64_t>(states.size())}, DType::f64);
  for (std::size_t i = 0; i < states.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i);
    Tensor square = squares.rows(row, row + 1);
    rank_.device.backend().training().add_squared_norm(states[i].value, square);
  }
  const std::vector<double> sums = squares.to_doubles();
  for (std::size_t i = 0; i < states.size(); ++i)
    if (!std::isfinite(sums[i]))
      fail<RankFailed>("step {}: {} is not finite on rank {}: the training has diverged", step, states[i].name,
                       rank_.index);
}

void Trainer::sample_in(std::int64_t shards) {
  sample_shards_ = shards;
  if (head_) head_->sample_in(shards);
}

void Trainer::set_head_first_step(std::int64_t step) {
  head_first_step_ = step;
  if (!head_) return;
  head_->set_first_step(step);
  for (const Parameter* parameter : head_->parameters())
    if (optimizer_) optimizer_->set_first_step(parameter->name, step);
}

std::vector<Parameter*> Trainer::parameters() {
  std::vector<Parameter*> all = models_.parameters();
  if (head_)
    for (Parameter* parameter : head_->parameters()) all.push_back(parameter);
  return all;
}

PipelineEngine Trainer::engine(const std::shared_ptr<const PipelineProgram>& program) {
  return {program, rank_.along(Axis::pp), rank_.device, tracer_};
}

std::vector<std::int64_t> Trainer::batch_of(std::int64_t step) const {
  return batch_indices(dataset_.size(Split::train), experiment_.train.batch, step, rank_.key);
}

std::optional<double> Trainer::shared_loss(std::int64_t step, std::optional<double> loss) {
  Communicator& ranks = rank_.along(Axis::pp);
  if (ranks.size() == 1) return loss;
  if (experiment_.head.is_everywhere() || !experiment_.head.has_loss(step)) {
    ranks.barrier().wait();
    return loss;
  }
  Tensor known;
  if (ranks.rank() == plan_->last_rank()) {
    known = Tensor::empty(rank_.device, {1}, DType::f64);
    if (loss) known.load_bytes(std::as_bytes(std::span(&*loss, 1)));
  }
  known = ranks.broadcast(known, plan_->last_rank());
  if (!rank_.device.has_data()) return {};
  return known.item();
}

std::optional<double> Trainer::compute_gradients(std::int64_t step) {
  const std::vector<std::int64_t> batch = batch_of(step);
  if (head_)
    head_->begin_step(
        step, experiment_.head.samples() ? labels_of(dataset_, Split::train, batch) : std::vector<std::int64_t>());
  const double scale = loss_scale_ ? loss_scale_->scale() : 1;
  TrainingTools tools{experiment_, dataset_, tracer_, images_, head_.get(), *buckets_, scale, {}};
  if (updates_head_early()) tools.update_head = [this, step] { update_head(step, 1); };
  TrainingPass pass(tools, models_, rank_, batch, step);
  (void)engine(plan_->training).run(pass);
  if (head_ && head_->is_replicated()) {
    const Tracer::Computing span(tracer_, "head weight");
    head_->store_weight_gradient();
  }
  buckets_->finish();
  head_buckets_->begin();
  head_buckets_->finish();
  has_overflowed_ = loss_scale_ && unscale_gradients();
  return shared_loss(step, pass.loss());
}

void Trainer::forward(std::int64_t step) {
  const std::vector<std::int64_t> batch = batch_of(step);
  std::vector<std::int64_t> sizes;
  for (std::int64_t i = 0; i < experiment_.train.micro_batches; ++i)
    sizes.push_back(micro_batch_samples(experiment_, rank_.mesh, i).size);
  ForwardPass pass(models_, rank_, sizes, [&](int i) {
    const Tracer::Computing span(tracer_, "load");
    const ShardRange samples = micro_batch_samples(experiment_, rank_.mesh, i);
    const ShardRange rows = input_rows(samples.size);
    return images_.read(std::span(batch).subspan(static_cast<std::size_t>(samples.begin + rows.begin),
                                                 static_cast<std::size_t>(rows.size)),
                        step, samples.begin + rows.begin);
  });
  const NoGrad no_grad(rank_.device);
  (void)engine(plan_->forward).run(pass);
  rank_.device.backend().settle();  // a forward step has no result but its time
  rank_.along(Axis::pp).barrier().wait();
}

std::vector<Tensor> Trainer::embed(const std::vector<std::int64_t>& sizes, const ForwardPass::Load& images) {
  ForwardPass pass(models_, rank_, sizes, images);
  std::vector<Tensor> embeddings = engine(plan_->embedding).run(pass);
  while (embeddings.size() < sizes.size())
    embeddings.push_back(
        Tensor::empty(rank_.device, {0, embedding_size(*plan_->model)}, experiment_.precision().wide()));
  for (Tensor& embedding : embeddings) embedding = in_type(embedding, experiment_.precision().wide());
  return embeddings;
}

bool Trainer::updates_head_early() const {
  const TrainConfig& train = experiment_.train;
  return head_ && !loss_scale_ && !head_->is_replicated() && train.micro_batches == 1 && train.clip.norm == 0 &&
         rank_.mesh.size(Axis::pp) == 1 && rank_.mesh.size(experiment_.head.copy_axes()) == 1 && rank_.size > 1;
}

void Trainer::update_head(std::int64_t step, double factor) {
  const Tracer::Computing span(tracer_, "head weight");
  head_->update({optimizer_steps(step), learning_rate_of(step), experiment_.train.clip.value, factor});
}

double Trainer::learning_rate_of(std::int64_t step) const {
  const TrainConfig& train = experiment_.train;
  return learning_rate(train.schedule, train.optimizer.learning_rate, step, train.steps);
}

bool Trainer::unscale_gradients() {
  const MemoryScope scope(rank_.device, Category::workspace);
  const Backend& backend = rank_.device.backend();
  // Not finite once one gradient is not; the squares of f32 stay within f64.
  Tensor squares = Tensor::zeros(rank_.device, {1}, DType::f64);
  const auto for_all = [](const std::vector<Parameter*>& parameters, auto&& visit) {
    for (Parameter* parameter : parameters)
      if (Tensor gradient = parameter->gradient->gradient(); gradient.defined()) visit(gradient);
  };
  // The head's are not scaled.
  for_all(models_.parameters(), [&](Tensor& g) { backend.elementwise().scale_add(1 / loss_scale_->scale(), g, 0, g); });
  for_all(parameters(), [&](Tensor& g) { backend.training().add_squared_norm(g, squares); });
  if (rank_.size > 1) squares = rank_.world.all_reduce(squares);
  return rank_.device.has_data() && !std::isfinite(squares.item());
}

double Trainer::gradient_norm() {
  // One square per parameter, added in model order; a part that several ranks hold counts on the first of them.
  std::vector<std::int64_t> numbers = models_.parameter_numbers();
  numbers.push_back(models_.parameters_of_all());  // the head's
  const std::vector<Parameter*> all = parameters();
  Tensor squares = Tensor::zeros(rank_.device, {models_.parameters_of_all() + 1}, DType::f64);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Tensor& gradient = all[i]->gradient->gradient();
    if (!gradient.defined() || owner(stepped_part(*all[i]), rank_) != rank_.index) continue;
    Tensor square = squares.rows(numbers[i], numbers[i] + 1);
    rank_.device.backend().training().add_squared_norm(gradient, square);
  }
  if (head_ && !head_->is_replicated()) {
    const std::int64_t last = models_.parameters_of_all();
    Tensor square = squares.rows(last, last + 1);
    const Tracer::Computing span(tracer_, "head norm");
    head_->add_squared_gradient(experiment_.train.clip.value, square);
  }
  if (rank_.size > 1) squares = rank_.world.all_reduce(squares);
  // On plan the norm is unknown; scaling is counted as if it were too large.
  if (!rank_.device.has_data()) return 2 * experiment_.train.clip.norm;
  const std::vector<double> values = squares.to_doubles();
  return std::sqrt(std::accumulate(values.begin(), values.end(), 0.0));
}

Trainer::Clipped Trainer::clip_gradients() {
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
  if (!std::isfinite(norm)) fail<RankFailed>("the norm of the gradients is {}: the training has diverged", norm);
  if (norm <= clip.norm) return {norm, 1};
  const double factor = clip.norm / norm;
  for_all([&](Tensor& g) { backend.elementwise().scale_add(factor, g, 0, g); });
  return {norm, factor};
}

Trainer::Update Trainer::apply_gradients(std::int64_t step) {
  Update update{.learning_rate = learning_rate_of(step)};
  if (loss_scale_) update.loss_scale = loss_scale_->scale();
  update.is_skipped = has_overflowed_;
  if (has_overflowed_) {
    if (head_ && !head_->is_replicated()) head_->skip_update();
    models_.drop_step();
  } else {
    update.gradient_norm = step_optimizer(step, update.learning_rate);
    models_.end_step(rank_);
  }
  for (const Parameter* parameter : parameters()) parameter->gradient->clear();
  if (loss_scale_) loss_scale_->end_step(has_overflowed_);
  return update;
}

std::optional<double> Trainer::step_optimizer(std::int64_t step, double learning_rate) {
  const Clipped clipped = clip_gradients();
  std::vector<Tensor> gradients;
  for (const Parameter* parameter : parameters())
    if (parameter->trainable) gradients.push_back(parameter->gradient->gradient());
  if (head_ && !head_->is_replicated() && !updates_head_early()) update_head(step, clipped.factor);
  const Tracer::Computing span(tracer_, "optimizer");
  optimizer_->step(optimizer_steps(step), learning_rate, gradients);
  gradients.clear();
  std::vector<FlatSharded> stepped;
  for (const Parameter* parameter : parameters())
    if (shards_step(*parameter)) stepped.push_back({parameter->value, &rank_.over(parameter->part.partial)});
  gather_shards(stepped, experiment_.train.bucket_bytes);
  return clipped.norm;
}

}  // namespace heddle

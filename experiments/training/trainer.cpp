#include "experiments/training/trainer.h"

#include <cmath>
#include <set>

#include "experiments/training/span_names.h"
#include "framework/ops/elementwise.h"
#include "framework/tensors/device.h"

namespace heddle {

namespace {

std::vector<HeadOfSet> heads_of(const Experiment& experiment) {
  std::vector<HeadOfSet> heads;
  for (std::size_t i = 0; i < experiment.heads(); ++i)
    heads.push_back({experiment.data_of(i).name, experiment.head_of(i)});
  return heads;
}

}  // namespace

Trainer::Trainer(const Experiment& experiment, const Dataset& dataset, Rank& rank, Tracer& tracer,
                 std::shared_ptr<const RunPlan> plan)
    : experiment_(experiment),
      dataset_(dataset),
      rank_(rank),
      tracer_(tracer),
      plan_(std::move(plan)),
      construction_{rank.device, rank.key, experiment.precision()},
      models_(plan_, rank, construction_),
      batches_(dataset, experiment.shares(), experiment.train.batch, rank.key),
      images_(experiment, dataset, rank, tracer, loaded_parts()) {
  construction_.next_stream = plan_->model->streams();
  construction_.precision = construction_.precision.wide();  // after the model
  if (experiment.head.is_everywhere() || plan_->has_stage(rank.coordinates.pp, plan_->stages() - 1))
    heads_ = std::make_unique<Heads>(
        heads_of(experiment), batches_.shares(),
        experiment.train.forward_only ? OptimizerConfig{.momentum = 0} : experiment.train.optimizer,
        embedding_size(*plan_->model), rank, construction_, experiment.pipeline.head_work);
  for (std::size_t i = 0; i < experiment.heads(); ++i) {
    const HeadConfig& head = experiment.head_of(i);
    sample_shards_.push_back(head.samples() ? head.sample.shards_over(rank.mesh.size(head.class_axes())) : 0);
  }
  check_names();
  parameters_.emplace(experiment, rank, tracer, models_, heads_.get());
}

void Trainer::check_names() {
  std::set<std::string> names;
  const auto check = [&](const std::string& name) {
    if (!names.insert(name).second)
      fail<InputError>("model: two parameters or statistics have the name {}: give the layers different names", name);
  };
  if (heads_) {
    for (const Parameter* parameter : heads_->parameters()) check(parameter->name);
    for (const StateTensor& tensor : heads_->state()) check(tensor.name);
  }
  for (const Parameter* parameter : models_.parameters()) check(parameter->name);
  for (const Buffer* buffer : buffers()) check(buffer->name);
  if (!experiment_.train.averages_weights) return;
  for (const Parameter* parameter : models_.parameters()) check(average_prefix + parameter->name);
  for (const Buffer* buffer : buffers()) check(average_prefix + buffer->name);
}

std::vector<StateTensor> Trainer::backbone_state() {
  std::vector<StateTensor> states = parameters_->state_of(models_.parameters());
  for (const Buffer* buffer : models_.buffers()) states.push_back({buffer->name, buffer->value, buffer->part});
  for (StateTensor& average : parameters_->averages()) states.push_back(std::move(average));
  return states;
}

std::vector<StateTensor> Trainer::head_state() {
  if (!heads_) return {};
  std::vector<StateTensor> states = parameters_->state_of(heads_->parameters());
  for (StateTensor& state : heads_->state()) states.push_back(std::move(state));
  return states;
}

std::vector<StateTensor> Trainer::head_state(std::size_t head) {
  if (!heads_) return {};
  std::vector<StateTensor> states = parameters_->state_of((*heads_)[head].parameters());
  for (StateTensor& state : (*heads_)[head].state()) states.push_back(std::move(state));
  return states;
}

std::vector<StateTensor> Trainer::state() {
  std::vector<StateTensor> states = backbone_state();
  for (StateTensor& state : head_state()) states.push_back(std::move(state));
  return states;
}

void Trainer::catch_up_all() {
  for (std::size_t head = 0; heads_ && head < heads_->size(); ++head) (*heads_)[head].catch_up_all();
}

void Trainer::check_finite(std::int64_t step) {
  if (!rank_.device.has_data()) return;
  std::vector<StateTensor> states = state();
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

void Trainer::set_sample_shards(std::size_t head, std::int64_t shards) {
  sample_shards_[head] = shards;
  if (heads_) (*heads_)[head].set_sample_shards(shards);
}

void Trainer::set_head_first_step(std::int64_t step) {
  head_first_step_ = step;
  parameters_->set_head_first_step(step);
}

std::vector<LoadedPart> Trainer::loaded_parts() const {
  const Schedule& schedule = (experiment_.train.forward_only ? plan_->forward : plan_->training)->schedule;
  std::vector<LoadedPart> parts;
  for (const Action& action : schedule.ranks[static_cast<std::size_t>(rank_.coordinates.pp)]) {
    if (action.kind != ActionKind::forward || action.stage != 0) continue;
    const IndexRange samples = micro_batch_samples(experiment_, rank_.mesh, action.micro_batch);
    const IndexRange rows = models_.input_rows(samples.size, rank_.index, schedule.copy_of(action.micro_batch));
    parts.push_back({action.micro_batch, {samples.begin + rows.begin, rows.size}});
  }
  return parts;
}

PipelineEngine Trainer::engine(const std::shared_ptr<const PipelineProgram>& program) {
  return {program, rank_.along(Axis::pp), rank_.device, tracer_, rank_.clock};
}

std::vector<double> Trainer::shared_losses(std::int64_t step, std::vector<double> losses) {
  Communicator& ranks = rank_.along(Axis::pp);
  if (ranks.size() == 1) return losses;
  if (experiment_.head.is_everywhere() || !experiment_.head.has_loss(step)) {
    ranks.barrier().wait();
    return losses;
  }
  // With two copies of the last stage, each knows the losses of half of the micro-batches.
  const bool is_summed = plan_->copies() > 1;
  Tensor known;
  if (is_summed || ranks.rank() == plan_->last_rank()) {
    known = Tensor::zeros(rank_.device, {static_cast<std::int64_t>(experiment_.heads())}, DType::f64);
    if (!losses.empty()) known.load_bytes(std::as_bytes(std::span(losses)));
  }
  known = is_summed ? Tensor(ranks.all_reduce(known)) : Tensor(ranks.broadcast(known, plan_->last_rank()));
  if (!rank_.device.has_data()) return {};
  return known.to_doubles();
}

void Trainer::share_broken_image() {
  has_broken_image_ = images_.has_broken_image();
  if (rank_.size == 1) return;
  const MemoryScope scope(rank_.device, Category::workspace);
  Tensor broken = Tensor::empty(rank_.device, {1}, DType::f64);
  const double mine = has_broken_image_ ? 1 : 0;
  if (rank_.device.has_data()) broken.load_bytes(std::as_bytes(std::span(&mine, 1)));
  broken = rank_.world.all_reduce(broken);
  if (rank_.device.has_data()) has_broken_image_ = broken.item() > 0;
}

void Trainer::end_at_broken_image() {
  images_.throw_if_broken();
  rank_.world.barrier().wait();  // fails with the rank that has read the image
  fail<RankFailed>("rank {}: no rank has reported which image is broken", rank_.index);
}

std::optional<double> Trainer::compute_gradients(std::int64_t step) {
  std::vector<std::int64_t> batch;
  if (heads_) {
    batch = batches_.indices(step);
    heads_->begin_step(
        step, heads_->samples() ? batches_.labels(batch, {0, experiment_.train.batch}) : std::vector<std::int64_t>());
  }
  const std::optional<LossScale>& loss_scale = parameters_->loss_scale();
  const double scale = loss_scale ? loss_scale->scale() : 1;
  TrainingContext context{experiment_, tracer_, images_, batches_, heads_.get(), parameters_->buckets(), scale};
  bool updates_early = false;
  for (std::size_t head = 0; heads_ && head < heads_->size(); ++head) {
    std::function<void()>& update = context.update_heads.emplace_back();
    if (!parameters_->updates_head_early(head)) continue;
    updates_early = true;
    update = [this, head, step] {
      if (!has_broken_image_) parameters_->update_head(head, step, 1);
    };
  }
  if (updates_early && dataset_.is_encoded()) context.before_heads = [this] { share_broken_image(); };
  TrainingPass pass(context, models_, rank_, batch, step);
  (void)engine(plan_->training).run(pass);
  pass.finish_loss();
  parameters_->finish_gradients();
  if (!updates_early && dataset_.is_encoded()) share_broken_image();
  losses_ = shared_losses(step, pass.losses());
  if (losses_.empty()) return {};
  double loss = 0;
  for (std::size_t head = 0; head < losses_.size(); ++head)
    loss += experiment_.head_of(head).loss_weight * losses_[head];
  return loss;
}

StepUpdate Trainer::apply_gradients(std::int64_t step) {
  return parameters_->apply(step);
}

void Trainer::with_averages(const std::function<void()>& use) {
  parameters_->use_averages();
  use();
  parameters_->restore_weights();
}

void Trainer::forward(std::int64_t step) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t i = 0; i < experiment_.train.micro_batches; ++i)
    sizes.push_back(micro_batch_samples(experiment_, rank_.mesh, i).size);
  ForwardPass pass(models_, rank_, sizes, [&](int i) {
    const Tracer::Computing span(tracer_, span_names::load);
    return images_.read(step, i);
  });
  const NoGrad no_grad(rank_.device);
  (void)engine(plan_->forward).run(pass);
  images_.throw_if_broken();
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

}  // namespace heddle

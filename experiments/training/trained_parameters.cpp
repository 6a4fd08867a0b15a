#include "experiments/training/trained_parameters.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "experiments/training/span_names.h"
#include "framework/description/wildcard.h"
#include "framework/optimizers/learning_rate.h"
#include "framework/tensors/device.h"
#include "parallel/placement/flat_shard.h"

namespace heddle {

int owner(const ParameterPart& part, const Rank& rank) {
  return rank.mesh.first_over(every_axis_and_copies.without(part.sharded), rank.index);
}

namespace {

constexpr const char* weight_of_head = ".weight";

/// The name of the weight of the head whose parameter this is.
std::string head_weight_of(const Experiment& experiment, const std::string& parameter) {
  for (std::size_t set = 0; set < experiment.heads(); ++set)
    if (parameter.starts_with(head_name(experiment, set) + ".")) return head_name(experiment, set) + weight_of_head;
  return parameter;
}

/// The optimizer multiplies gradients of 16 bits, which would be rounded here, in f32.
bool is_scaled_in_step(const Tensor& gradient) {
  return gradient.defined() && size_of(gradient.dtype()) == 2;
}

}  // namespace

TrainedParameters::TrainedParameters(const Experiment& experiment, Rank& rank, Tracer& tracer, StageModels& models,
                                     Heads* heads)
    : experiment_(experiment), rank_(rank), tracer_(tracer), models_(models), heads_(heads) {
  if (!experiment.train.forward_only) make_optimizer_and_buckets();
  if (!experiment.train.forward_only && experiment.train.averages_weights) make_averages();
  if (experiment.has_loss_scale()) loss_scale_.emplace(experiment.train.loss_scale);
}

std::vector<Parameter*> TrainedParameters::all() const {
  std::vector<Parameter*> parameters = models_.parameters();
  if (heads_ != nullptr)
    for (Parameter* parameter : heads_->parameters()) parameters.push_back(parameter);
  return parameters;
}

void TrainedParameters::make_optimizer_and_buckets() {
  std::vector<PartialGradient> of_stages;
  std::vector<PartialGradient> of_heads;
  std::vector<TrainedWeight> weights;  // in the order of all()
  const std::vector<Parameter*> stage_parameters = models_.parameters();
  for (std::size_t i = 0; i < stage_parameters.size(); ++i) {
    const Parameter& parameter = *stage_parameters[i];
    if (!parameter.trainable) continue;
    of_stages.push_back(partial_gradient(parameter));
    const double decay = std::pow(experiment_.train.optimizer.layer_decay, models_.depths_from_end()[i]);
    weights.push_back(trained_weight(parameter, rate_factor(parameter.name) * decay));
  }
  if (heads_ != nullptr)
    for (const Parameter* parameter : heads_->parameters()) {
      if (!parameter->trainable) continue;
      of_heads.push_back(partial_gradient(*parameter));
      of_heads.back().type = experiment_.precision().wide();
      weights.push_back(trained_weight(*parameter, rate_factor(head_weight_of(experiment_, parameter->name))));
    }
  buckets_ = std::make_unique<GradientBuckets>(std::move(of_stages), experiment_.train.bucket_bytes);
  head_buckets_ = std::make_unique<GradientBuckets>(std::move(of_heads), experiment_.train.bucket_bytes);
  optimizer_ = make_optimizer(experiment_.train.optimizer, std::move(weights));
}

PartialGradient TrainedParameters::partial_gradient(const Parameter& parameter) const {
  return {parameter.value, parameter.gradient, &rank_.over(parameter.part.partial), shards_step(parameter)};
}

TrainedWeight TrainedParameters::trained_weight(const Parameter& parameter, double learning_rate_factor) const {
  const Tensor& value = parameter.value;
  TrainedWeight weight{parameter.name,
                       shards_step(parameter) ? flat_shard(value, rank_.over(parameter.part.partial)) : value,
                       parameter.is_norm_or_bias};
  weight.rate_factor = learning_rate_factor;
  if (size_of(value.dtype()) == 2)
    weight.rounding = {rank_.key, parameter.stream, weight_rows(stepped_part(parameter))};
  return weight;
}

void TrainedParameters::make_averages() {
  std::vector<WeightAverages::Averaged> averaged;
  for (const Parameter* parameter : models_.parameters()) {
    if (!parameter->trainable) continue;
    const Tensor& weight = parameter->value;
    averaged.push_back(
        {parameter->name, shards_step(*parameter) ? flat_shard(weight, rank_.over(parameter->part.partial)) : weight});
  }
  for (const Buffer* buffer : models_.buffers()) averaged.push_back({buffer->name, buffer->value});
  averages_.emplace(experiment_.train.ema, std::move(averaged));
}

std::vector<StateTensor> TrainedParameters::averages() {
  std::vector<StateTensor> states;
  if (!averages_) return states;
  std::map<std::string, ParameterPart, std::less<>> parts;
  for (const Parameter* parameter : models_.parameters()) parts.emplace(parameter->name, stepped_part(*parameter));
  for (const Buffer* buffer : models_.buffers()) parts.emplace(buffer->name, buffer->part);
  for (const Optimizer::State& state : averages_->state())
    states.push_back({state.name, state.value, parts.at(state.weight)});
  return states;
}

void TrainedParameters::restart_averages() {
  if (averages_) averages_->restart();
}

void TrainedParameters::use_averages() {
  if (!averages_) return;
  averages_->use();
  gather_steps(models_.parameters());
}

void TrainedParameters::restore_weights() {
  if (!averages_) return;
  averages_->restore();
  gather_steps(models_.parameters());
}

bool TrainedParameters::shards_step(const Parameter& parameter) const {
  return experiment_.train.shard == ShardedState::optimizer && parameter.trainable && !parameter.part.partial.empty();
}

ParameterPart TrainedParameters::stepped_part(const Parameter& parameter) const {
  ParameterPart part = parameter.part;
  if (!shards_step(parameter)) return part;
  const Communicator& ranks = rank_.over(part.partial);
  const IndexRange range = flat_range(parameter.value, ranks, ranks.rank());
  part.elements = IndexRange{part.elements.value_or(IndexRange{}).begin + range.begin, range.size};
  part.partial.for_each([&](Axis axis) { part.sharded.insert(axis); });
  return part;
}

std::vector<StateTensor> TrainedParameters::state_of(const std::vector<Parameter*>& parameters) const {
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

void TrainedParameters::set_head_first_step(std::int64_t step) {
  if (heads_ == nullptr) return;
  for (std::size_t head = 0; head < heads(); ++head) (*heads_)[head].set_first_step(step);
  for (const Parameter* parameter : heads_->parameters())
    if (optimizer_) optimizer_->set_first_step(parameter->name, step);
}

void TrainedParameters::finish_gradients() {
  for (std::size_t head = 0; head < heads(); ++head) {
    if (!(*heads_)[head].is_replicated()) continue;
    const Tracer::Computing span(tracer_, span_names::head_weight);
    (*heads_)[head].store_gradient();
  }
  buckets_->finish();
  head_buckets_->begin();
  head_buckets_->finish();
  has_overflowed_ = loss_scale_ && unscale();
}

bool TrainedParameters::updates_head_early(std::size_t head) const {
  const TrainConfig& train = experiment_.train;
  const HeadConfig& config = experiment_.head_of(head);
  return !loss_scale_ && !config.is_replicated() && train.micro_batches == 1 && !train.clip.needs_norm_of_heads() &&
         rank_.mesh.size(Axis::pp) == 1 && rank_.mesh.size(config.copy_axes()) == 1 && rank_.size > 1;
}

void TrainedParameters::update_head(std::size_t head, std::int64_t step, double factor) {
  const Tracer::Computing span(tracer_, span_names::head_weight);
  const ClipConfig& clip = experiment_.train.clip;
  const double rate = learning_rate_of(step) * rate_factor(head_name(experiment_, head) + weight_of_head);
  (*heads_)[head].update({optimizer_steps(step), rate, clip.head ? clip.value : 0, factor});
}

double TrainedParameters::learning_rate_of(std::int64_t step) const {
  const TrainConfig& train = experiment_.train;
  return learning_rate(train.schedule, train.optimizer.learning_rate, step, train.steps);
}

double TrainedParameters::rate_factor(const std::string& parameter) const {
  double factor = 1;
  for (const LearningRateFactor& each : experiment_.train.lr_factors)
    if (matches(each.pattern, parameter)) factor = each.factor;
  return factor;
}

std::vector<Parameter*> TrainedParameters::clipped() const {
  return experiment_.train.clip.head ? all() : models_.parameters();
}

double TrainedParameters::gradient_scale(const Parameter& parameter) const {
  const Tensor& gradient = parameter.gradient->gradient();
  return loss_scale_ && gradient.defined() && gradient.dtype() == DType::f16 ? loss_scale_->scale() : 1;
}

bool TrainedParameters::unscale() {
  const MemoryScope scope(rank_.device, Category::workspace);
  const Backend& backend = rank_.device.backend();
  // Not finite once one gradient is not; the squares of f32 stay within f64.
  Tensor squares = Tensor::zeros(rank_.device, {1}, DType::f64);
  // The heads' are not scaled. Those of 16 bits, which would vanish without a scale, lose it in the optimizer's step.
  for (const Parameter* parameter : models_.parameters())
    if (Tensor g = parameter->gradient->gradient(); g.defined() && gradient_scale(*parameter) == 1)
      backend.elementwise().scale_add(1 / loss_scale_->scale(), g, 0, g);
  for (const Parameter* parameter : all())
    if (const Tensor g = parameter->gradient->gradient(); g.defined()) backend.training().add_squared_norm(g, squares);
  if (rank_.size > 1) squares = rank_.world.all_reduce(squares);
  return rank_.device.has_data() && !std::isfinite(squares.item());
}

double TrainedParameters::gradient_norm() {
  // One square per parameter, added in model order; a part that several ranks hold counts on the first of them.
  std::vector<std::int64_t> numbers = models_.parameter_numbers();
  const std::vector<Parameter*> parameters = clipped();
  const std::int64_t first_head = models_.parameters_of_all();
  for (std::size_t head = 0; head < heads(); ++head)
    numbers.insert(numbers.end(), (*heads_)[head].parameters().size(), first_head + static_cast<std::int64_t>(head));
  const auto all_heads = static_cast<std::int64_t>(experiment_.heads());
  Tensor squares = Tensor::zeros(rank_.device, {first_head + all_heads}, DType::f64);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Tensor& gradient = parameters[i]->gradient->gradient();
    if (!gradient.defined() || owner(stepped_part(*parameters[i]), rank_) != rank_.index) continue;
    Tensor square = squares.rows(numbers[i], numbers[i] + 1);
    rank_.device.backend().training().add_squared_norm(gradient, square);
    if (const double scale = gradient_scale(*parameters[i]); scale != 1)
      rank_.device.backend().elementwise().scale_add(1 / (scale * scale), square, 0, square);
  }
  for (std::size_t head = 0; head < heads() && experiment_.train.clip.head; ++head) {
    if ((*heads_)[head].is_replicated()) continue;
    const std::int64_t number = first_head + static_cast<std::int64_t>(head);
    Tensor square = squares.rows(number, number + 1);
    const Tracer::Computing span(tracer_, span_names::head_norm);
    (*heads_)[head].add_squared_gradient(experiment_.train.clip.value, square);
  }
  if (rank_.size > 1) squares = rank_.world.all_reduce(squares);
  // On plan the norm is unknown; scaling is counted as if it were too large.
  if (!rank_.device.has_data()) return 2 * experiment_.train.clip.norm;
  const std::vector<double> values = squares.to_doubles();
  return std::sqrt(std::accumulate(values.begin(), values.end(), 0.0));
}

TrainedParameters::Clipped TrainedParameters::clip() {
  const ClipConfig& clip = experiment_.train.clip;
  const MemoryScope scope(rank_.device, Category::workspace);
  const auto for_all = [&](auto&& change) {
    for (Parameter* parameter : clipped())
      if (Tensor gradient = parameter->gradient->gradient(); gradient.defined())
        change(gradient, gradient_scale(*parameter));
  };
  const Backend& backend = rank_.device.backend();
  if (clip.value > 0) for_all([&](Tensor& g, double scale) { backend.training().clamp(g, clip.value * scale); });
  if (clip.norm == 0) return {};
  const double norm = gradient_norm();
  if (!std::isfinite(norm)) fail<RankFailed>("the norm of the gradients is {}: the training has diverged", norm);
  if (norm <= clip.norm) return {norm, 1};
  const double factor = clip.norm / norm;
  for_all([&](Tensor& g, double /*scale*/) {
    if (!is_scaled_in_step(g)) backend.elementwise().scale_add(factor, g, 0, g);
  });
  return {norm, factor};
}

StepUpdate TrainedParameters::apply(std::int64_t step) {
  StepUpdate update{.learning_rate = learning_rate_of(step)};
  if (loss_scale_) update.loss_scale = loss_scale_->scale();
  update.is_skipped = has_overflowed_;
  if (has_overflowed_) {
    drop();
  } else {
    update.gradient_norm = step_optimizer(step, update.learning_rate);
    models_.end_step(rank_);
    for (const Parameter* parameter : all()) parameter->gradient->clear();
    if (averages_) {
      const Tracer::Computing span(tracer_, span_names::optimizer);
      averages_->update(optimizer_steps(step));
    }
  }
  if (loss_scale_) loss_scale_->end_step(has_overflowed_);
  return update;
}

void TrainedParameters::drop() {
  for (std::size_t head = 0; head < heads(); ++head)
    if (!(*heads_)[head].is_replicated()) (*heads_)[head].skip_update();
  models_.drop_step();
  for (const Parameter* parameter : all()) parameter->gradient->clear();
}

std::optional<double> TrainedParameters::step_optimizer(std::int64_t step, double learning_rate) {
  const Clipped clipped = clip();
  std::vector<Tensor> gradients;
  std::vector<double> scales;
  const std::size_t of_models = models_.parameters().size();
  const std::vector<Parameter*> parameters = all();
  const double head_factor = experiment_.train.clip.head ? clipped.factor : 1;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!parameters[i]->trainable) continue;
    gradients.push_back(parameters[i]->gradient->gradient());
    scales.push_back(gradient_scale(*parameters[i]));
    if (is_scaled_in_step(gradients.back())) scales.back() /= i < of_models ? clipped.factor : head_factor;
  }
  for (std::size_t head = 0; head < heads(); ++head)
    if ((*heads_)[head].is_replicated())
      (*heads_)[head].end_margin_step();
    else if (!updates_head_early(head))
      update_head(head, step, head_factor);
  const Tracer::Computing span(tracer_, span_names::optimizer);
  optimizer_->step(optimizer_steps(step), learning_rate, gradients, scales);
  gradients.clear();
  gather_steps(parameters);
  return clipped.norm;
}

void TrainedParameters::gather_steps(const std::vector<Parameter*>& parameters) {
  std::vector<FlatSharded> stepped;
  for (const Parameter* parameter : parameters)
    if (shards_step(*parameter)) stepped.push_back({parameter->value, &rank_.over(parameter->part.partial)});
  gather_shards(stepped, experiment_.train.bucket_bytes);
}

}  // namespace heddle

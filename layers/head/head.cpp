#include "layers/head/head.h"

#include <cmath>
#include <utility>

#include "framework/ops/elementwise.h"
#include "framework/tensors/device.h"
#include "layers/head/tile_logits.h"

namespace heddle {

namespace {

ClassInitial initial_of(const HeadConfig& config) {
  const auto kind = config.init == HeadInit::unit ? ClassInitial::Kind::unit : ClassInitial::Kind::normal;
  return {.kind = kind, .deviation = config.initial_deviation};
}

std::vector<std::int64_t> sizes_of(const std::vector<ShardRange>& ranges) {
  std::vector<std::int64_t> sizes;
  for (const ShardRange& range : ranges) sizes.push_back(range.size);
  return sizes;
}

/// The rows of the sampled classes.
ClassSample of_centres(ClassSample sample, std::int64_t centres) {
  if (centres == 1) return sample;
  const auto spread = [centres](std::vector<std::int64_t>& classes) {
    std::vector<std::int64_t> rows;
    for (const std::int64_t row : classes)
      for (std::int64_t i = 0; i < centres; ++i) rows.push_back(row * centres + i);
    classes = std::move(rows);
  };
  sample.size *= centres;
  spread(sample.rows);
  spread(sample.positives);
  return sample;
}

}  // namespace

Head::Head(const HeadConfig& config, const OptimizerConfig& optimizer, std::int64_t dimension, Rank& rank,
           Construction& construction)
    : config_(config),
      optimizer_(optimizer),
      device_(construction.device),
      key_(rank.key),
      ranks_(rank.over(config.class_axes())),
      copies_(rank.over(config.copy_axes())),
      all_(rank.over(config.axes())),
      shard_(shard(config.classes, ranks_.size(), ranks_.rank())),
      part_(ParameterPart::all_of({config.rows_of(config.classes), dimension})),
      stream_(construction.next_stream),
      draws_aside_(!rank.clock.is_virtual()),
      dtype_(construction.precision.wide()),
      product_type_(product_type(config, dtype_, device_.backend().linear_algebra().is_bf16_fast())),
      margin_(config.margin, construction.device, rank.mesh.larger_than_one(every_axis.without(config.axes()))) {
  check(config, optimizer, dtype_);
  part_.sharded = rank.mesh.larger_than_one(every_axis.without(config.copy_axes()));
  if (config_.is_replicated()) {
    part_.partial = rank.mesh.larger_than_one(config.copy_axes());
    weight_ = make_parameter(construction, "head.weight", part_, Initial::constant(0));
    table_.weight = weight_.value;
  } else {
    part_.box[0] = {config.rows_of(shard_.begin), config.rows_of(shard_.size)};
    make_table();
    ++construction.next_stream;
  }
  device_.backend().class_rows().fill(table_,
                                      {.key = construction.key, .purpose = Purpose::initial_weights, .layer = stream_},
                                      part_.box[0].begin * dimension, initial_of(config));
  tiles_.emplace(table_, dtype_, product_type_, config.normalize, tile_rows(config, dimension), config.sub_centres);
  tiles_->select({}, biases());
}

void Head::make_table() {
  const Shape shape = part_.shape();
  {
    const MemoryScope scope(device_, Category::parameters);
    table_.weight = Tensor::empty(device_, shape, weight_type(config_, dtype_));
    if (config_.weights == WeightState::int8) table_.scale = Tensor::empty(device_, {shape[0]}, DType::f32);
    if (config_.bias) bias_.weight = Tensor::zeros(device_, {shard_.size, 1}, dtype_);
  }
  const MemoryScope scope(device_, Category::optimizer);
  const auto type = momentum_type(config_, optimizer_, dtype_);
  if (type) table_.momentum = Tensor::zeros(device_, shape, *type);
  if (!type) optimizer_.momentum = 0;
  const bool is_adamw = optimizer_.type == OptimizerType::adamw;
  if (is_adamw) table_.square = Tensor::zeros(device_, shape, dtype_);
  if (config_.bias && type) bias_.momentum = Tensor::zeros_like(bias_.weight);
  if (config_.bias && is_adamw) bias_.square = Tensor::zeros_like(bias_.weight);
  if (!config_.lags()) return;
  table_.taken = Tensor::zeros(device_, {shape[0]}, DType::i32);
  put_off_.emplace(device_);
}

Tensor Head::biases() const {
  return bias_.weight.defined() ? bias_.weight.reshape({shard_.size}) : Tensor();
}

std::vector<Parameter*> Head::parameters() {
  if (config_.is_replicated()) return {&weight_};
  return {};
}

std::vector<StateTensor> Head::state() {
  std::vector<StateTensor> all = margin_.state();
  if (config_.is_replicated()) return all;
  catch_up_all();
  const auto add_table = [&](const std::string& name, const ClassTable& table, const ParameterPart& part) {
    all.push_back({name, table.weight, part});
    const bool is_adamw = optimizer_.type == OptimizerType::adamw;
    if (table.momentum.defined()) all.push_back({(is_adamw ? "mean." : "velocity.") + name, table.momentum, part});
    if (table.square.defined()) all.push_back({"square." + name, table.square, part});
  };
  add_table("head.weight", table_, part_);
  ParameterPart vector = part_;
  if (table_.scale.defined()) {
    vector.whole = Shape{part_.whole[0]};
    vector.box = {part_.box[0]};
    all.push_back({"head.weight.scale", table_.scale, vector});
  }
  vector.whole = Shape{config_.classes, 1};
  vector.box = {shard_, {0, 1}};
  if (bias_.weight.defined()) add_table("head.bias", bias_, vector);
  return all;
}

ClassTable& Head::table() {
  catch_up_all();
  return table_;
}

void Head::begin_step(std::int64_t step, std::span<const std::int64_t> labels) {
  forget();
  margin_.begin_step();
  step_ = step;
  if (!config_.samples()) return;
  const SampleConfig& sample = config_.sample;
  const SampleShape shape{config_.classes, sample.shards_over(ranks_.size()), sample.rate, sample.correction};
  std::vector<std::int64_t> own(labels.begin(), labels.end());
  // The classes are drawn while the layers before the head compute. With a virtual clock, which sees the rank's own
  // thread only, they are drawn when they are needed.
  const auto when = draws_aside_ ? std::launch::async : std::launch::deferred;
  const auto draw = device_.has_data() ? draw_sample : count_sample;
  drawing_ = std::async(when, [draw, shape, range = shard_, own = std::move(own), key = key_, step] {
    return draw(shape, range, own, key, step);
  });
}

void Head::take_sample() {
  if (!drawing_.valid()) return;
  sample_ = of_centres(drawing_.get(), config_.sub_centres);
  const MemoryScope scope(device_, Category::workspace);
  Tensor bias;
  if (config_.sample.correction) {
    const std::int64_t classes = sample_.size / config_.sub_centres;
    bias = Tensor::empty(device_, {classes}, dtype_);
    device_.backend().elementwise().cast(given(device_, sample_.corrections, classes), bias);
  }
  const Tensor rows = given(device_, sample_.rows, sample_.size);
  tiles_->select(rows, bias);
  if (!put_off_) return;
  device_.backend().class_rows().catch_up(table_, {.size = sample_.size, .index = rows}, put_off_->steps());
  table_.weight.storage()->changed();
}

void Head::forget() {
  kept_.clear();
  tiles_->select({}, biases());
  sample_ = {};
}

ShardRange Head::own_samples(const HeadInput& input) const {
  return input.samples[static_cast<std::size_t>(ranks_.rank())];
}

void Head::check_labels(const HeadInput& input) const {
  for (std::size_t i = 0; i < input.labels.size(); ++i)
    if (input.labels[i] < 0 || input.labels[i] >= config_.classes)
      fail<InputError>("head: sample {} of the batch has label {}, expected one in [0, {})",
                       own_samples(input).begin + static_cast<std::int64_t>(i), input.labels[i], config_.classes);
}

void Head::check_finite(const HeadInput& input, const Tensor& inverse_norm) const {
  if (!device_.has_data()) return;
  const std::vector<double> norms = inverse_norm.to_doubles();
  for (std::size_t i = 0; i < norms.size(); ++i)
    if (!std::isfinite(norms[i]) || norms[i] == 0)
      fail<RankFailed>(
          "head: the embedding of sample {} of the batch, on rank {}, is not finite: the training has diverged",
          own_samples(input).begin + static_cast<std::int64_t>(i), device_.rank());
}

void Head::check_finite_gradient(const Tensor& gradient) const {
  Tensor square = Tensor::zeros(device_, {1}, DType::f64);
  device_.backend().training().add_squared_norm(gradient, square);
  if (device_.has_data() && !std::isfinite(square.item()))
    fail<RankFailed>("head: the gradient of the embeddings of rank {} is not finite: the training has diverged",
                     device_.rank());
}

void Head::check_finite_sums(const HeadInput& input, const Tensor& log_sums) const {
  if (!device_.has_data()) return;
  const std::vector<double> values = log_sums.to_doubles();
  auto value = values.begin();
  for (const ShardRange& samples : input.samples)
    for (std::int64_t sample = samples.begin; sample < samples.end(); ++sample)
      if (!std::isfinite(*value++))
        fail<RankFailed>("head: the logits of sample {} of the batch are not finite: the training has diverged",
                         sample);
}

Tensor Head::columns_of(const Tensor& labels) const {
  if (!config_.samples() || !device_.has_data()) return labels;
  std::vector<std::int64_t> columns = labels.to_host<std::int64_t>();
  for (std::int64_t& label : columns) {
    const std::int64_t row = sample_.position(config_.rows_of(label - shard_.begin));
    label = row < 0 ? row : row / config_.sub_centres;
  }
  return Tensor::from_host(device_, labels.shape(), columns);
}

HeadOutput Head::forward_backward(const HeadInput& input) {
  if (static_cast<int>(input.samples.size()) != ranks_.size())
    fail("head: expected the samples of {} ranks, got {}", ranks_.size(), input.samples.size());
  check_labels(input);
  take_sample();
  const NormalizationKernels& norms = device_.backend().normalization();
  Tensor mine = config_.normalize ? Tensor::empty_like(input.embedding) : Tensor();
  Tensor embedding_scale = Tensor::empty(device_, {input.embedding.shape()[0]}, dtype_);
  norms.l2_normalize(input.embedding, norm_epsilon, mine, embedding_scale);
  check_finite(input, embedding_scale);
  if (!config_.normalize) mine = input.embedding;
  const auto count = static_cast<std::int64_t>(input.labels.size());
  const Tensor own_labels = Tensor::from_host(device_, {count}, input.labels);
  LogitsInput logits{.config = config_,
                     .ranks = ranks_,
                     .classes = *tiles_,
                     .columns = {},
                     .rows = config_.is_replicated() ? mine : Tensor(ranks_.all_gather(mine)),
                     .factors = {},
                     .labels = config_.is_replicated() ? own_labels : Tensor(ranks_.all_gather(own_labels)),
                     .share = sizes_of(input.samples),
                     .loss_scale = 1.0 / static_cast<double>(input.global_batch),
                     .wants_loss = config_.has_loss(step_)};
  mine = Tensor();
  logits.factors = in_type(logits.rows, product_type_);
  logits.labels = columns_of(logits.labels);
  for (int r = 0; r < ranks_.size(); ++r)
    logits.columns.push_back(config_.samples() ? ShardRange{0, tiles_->classes()}
                                               : shard(config_.classes, ranks_.size(), r));
  logits.margin = margin_.of_rows(logits, embedding_scale);
  LogitsResult result = compute(logits);

  const Tensor radial = radial_share(logits, result.kept.log_sums);
  result.kept.radial = radial;
  kept_.push_back(std::move(result.kept));
  HeadOutput output;
  if (config_.is_replicated()) {
    output.embedding_gradient = std::move(result.gradient);
  } else {
    Work<Tensor> reducing = ranks_.reduce_scatter(std::exchange(result.gradient, Tensor()), logits.share);
    if (input.while_reducing) {
      check_finite_sums(input, kept_.back().log_sums);
      input.while_reducing();
    }
    output.embedding_gradient = reducing.wait();
  }
  if (config_.normalize)
    norms.l2_normalize_backward(input.embedding, embedding_scale, output.embedding_gradient, output.embedding_gradient);
  if (radial.defined()) {
    const ShardRange own = logits.own_rows();
    device_.backend().head().add_radial(radial.rows(own.begin, own.end()), Tensor(), 0, input.embedding,
                                        output.embedding_gradient);
  }
  check_finite_gradient(output.embedding_gradient);
  if (result.loss.defined()) output.loss_sum = loss_sum(result.loss, logits.loss_scale);
  if (scatters_loss()) output.losses = result.loss;
  return output;
}

LogitsResult Head::compute(const LogitsInput& input) const {
  switch (config_.logits) {
    case Logits::gathered:
      return gathered_logits(input);
    case Logits::transposed:
      return transposed_logits(input);
    case Logits::sharded:
      return sharded_logits(input);
    case Logits::fused:
      break;
  }
  return fused_logits(input);
}

Tensor Head::loss_sum(const Tensor& losses, double scale) {
  Tensor sum = Tensor::empty(device_, {}, losses.dtype());
  device_.backend().reduction().reduce(ReduceOp::sum, losses, {1, losses.numel(), 1}, sum);
  device_.backend().elementwise().scale_add(scale, sum, 0, sum);
  // Each rank has the losses of all samples of its group, or those of its own samples.
  Communicator& others = scatters_loss() ? all_ : copies_;
  return others.size() > 1 ? Tensor(others.all_reduce(sum)) : sum;
}

}  // namespace heddle

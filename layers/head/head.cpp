#include "layers/head/head.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "framework/device.h"
#include "framework/ops/linear.h"

namespace heddle {

namespace {

/// About 2 MiB of f32 weights: they, their products and their gradient pass through a core's cache together.
std::int64_t usual_tile(std::int64_t dimension) {
  return std::clamp<std::int64_t>((std::int64_t{1} << 19) / dimension, 256, 8192);
}

ClassInitial initial_of(const HeadConfig& config) {
  const auto kind = config.init == HeadInit::unit ? ClassInitial::Kind::unit : ClassInitial::Kind::normal;
  return {.kind = kind, .deviation = config.initial_deviation};
}

}  // namespace

AxisSet Head::axes(const HeadConfig& config) {
  return config.is_everywhere() ? every_axis : AxisSet{Axis::dp, Axis::tp};
}

Head::Head(const HeadConfig& config, const OptimizerConfig& optimizer, std::int64_t dimension, Rank& rank,
           Construction& construction)
    : config_(config),
      optimizer_(optimizer),
      device_(construction.device),
      key_(rank.key),
      ranks_(rank.over(config.is_replicated() ? AxisSet{} : axes(config))),
      samples_(rank.over(axes(config))),
      shard_(shard(config.classes, ranks_.size(), ranks_.rank())),
      part_(ParameterPart::all_of({config.classes, dimension})),
      stream_(construction.next_stream),
      draws_aside_(!rank.clock.is_virtual()),
      dtype_(construction.dtype) {
  check(config, optimizer, construction.dtype);
  if (config_.is_replicated()) {
    part_.sharded = rank.mesh.larger_than_one({Axis::pp});
    part_.partial = rank.mesh.larger_than_one(axes(config));
    weight_ = make_parameter(construction, "head.weight", part_, Initial::constant(0));
    table_.weight = weight_.value;
  } else {
    part_.box[0] = shard_;
    part_.sharded = rank.mesh.larger_than_one(every_axis);
    make_table();
    ++construction.next_stream;
  }
  device_.backend().class_rows().fill(table_,
                                      {.key = construction.key, .purpose = Purpose::initial_weights, .layer = stream_},
                                      shard_.begin * dimension, initial_of(config));
  const std::int64_t tile = config.tile > 0 ? config.tile : usual_tile(dimension);
  tiles_.emplace(table_, dtype_, config.normalize, tile);
}

void Head::make_table() {
  const Shape shape = part_.shape();
  {
    const MemoryScope scope(device_, Category::parameters);
    table_.weight = Tensor::empty(device_, shape, weight_type(config_, dtype_));
    if (config_.weights == WeightState::int8) table_.scale = Tensor::empty(device_, {shard_.size}, DType::f32);
  }
  const MemoryScope scope(device_, Category::optimizer);
  const auto type = momentum_type(config_, optimizer_, dtype_);
  if (type) table_.momentum = Tensor::zeros(device_, shape, *type);
  if (!type) optimizer_.momentum = 0;
  if (optimizer_.type == OptimizerType::adamw) table_.square = Tensor::zeros(device_, shape, dtype_);
  if (!config_.lags()) return;
  table_.taken = Tensor::zeros(device_, {shard_.size}, DType::i32);
  put_off_.emplace(device_);
}

std::vector<Parameter*> Head::parameters() {
  if (config_.is_replicated()) return {&weight_};
  return {};
}

std::vector<StateTensor> Head::state() {
  if (config_.is_replicated()) return {};
  catch_up_all();
  std::vector<StateTensor> all{{"head.weight", table_.weight, part_}};
  if (table_.scale.defined()) {
    ParameterPart rows = part_;
    rows.whole = Shape{config_.classes};
    rows.box = {shard_};
    all.push_back({"head.weight.scale", table_.scale, rows});
  }
  const bool is_adamw = optimizer_.type == OptimizerType::adamw;
  if (table_.momentum.defined())
    all.push_back({is_adamw ? "mean.head.weight" : "velocity.head.weight", table_.momentum, part_});
  if (table_.square.defined()) all.push_back({"square.head.weight", table_.square, part_});
  return all;
}

ClassTable& Head::table() {
  catch_up_all();
  return table_;
}

void Head::begin_step(std::int64_t step, std::span<const std::int64_t> labels) {
  forget();
  step_ = step;
  if (!config_.samples()) return;
  const SampleConfig& sample = config_.sample;
  const SampleShape shape{config_.classes, sample.shards_over(ranks_.size()), sample.rate, sample.correction};
  std::vector<std::int64_t> own(labels.begin(), labels.end());
  // The classes are drawn while the layers before the head compute; by a virtual clock, which sees the rank's own
  // thread only, when they are needed.
  const auto when = draws_aside_ ? std::launch::async : std::launch::deferred;
  const auto draw = device_.has_data() ? draw_sample : count_sample;
  drawing_ = std::async(when, [draw, shape, range = shard_, own = std::move(own), key = key_, step] {
    return draw(shape, range, own, key, step);
  });
}

void Head::take_sample() {
  if (!drawing_.valid()) return;
  sample_ = drawing_.get();
  const MemoryScope scope(device_, Category::workspace);
  Tensor bias;
  if (config_.sample.correction) {
    bias = Tensor::empty(device_, {sample_.size}, dtype_);
    device_.backend().elementwise().cast(given(sample_.corrections, sample_.size), bias);
  }
  const Tensor rows = given(sample_.rows, sample_.size);
  tiles_->select(rows, bias);
  if (!put_off_) return;
  device_.backend().class_rows().catch_up(table_, {.size = sample_.size, .index = rows}, put_off_->steps());
  table_.weight.storage()->changed();
}

template <class T>
Tensor Head::given(const std::vector<T>& values, std::int64_t size) const {
  return device_.has_data() ? Tensor::from_host(device_, {size}, values) : Tensor::empty(device_, {size}, dtype_of<T>);
}

void Head::forget() {
  kept_.clear();
  tiles_->select({});
  sample_ = {};
}

void Head::check_labels(const HeadInput& input) const {
  for (std::size_t i = 0; i < input.labels.size(); ++i)
    if (input.labels[i] < 0 || input.labels[i] >= config_.classes)
      fail<InputError>("head: sample {} of the batch has label {}, expected one in [0, {})",
                       input.first_sample + static_cast<std::int64_t>(i), input.labels[i], config_.classes);
}

void Head::check_finite(const HeadInput& input, const Tensor& inverse_norm) const {
  if (!device_.has_data()) return;
  const std::vector<double> norms = inverse_norm.to_doubles();
  for (std::size_t i = 0; i < norms.size(); ++i)
    if (!std::isfinite(norms[i]) || norms[i] == 0)
      fail<RankFailed>(
          "head: the embedding of sample {} of the batch, on rank {}, is not finite: the training has diverged",
          input.first_sample + static_cast<std::int64_t>(i), device_.rank());
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
  const auto own = input.rows.begin() + samples_.rank();
  const std::int64_t first = input.first_sample - std::accumulate(input.rows.begin(), own, std::int64_t{0});
  const std::vector<double> values = log_sums.to_doubles();
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!std::isfinite(values[i]))
      fail<RankFailed>("head: the logits of sample {} of the batch are not finite: the training has diverged",
                       first + static_cast<std::int64_t>(i));
}

Tensor Head::columns_of(const Tensor& labels) const {
  if (!config_.samples() || !device_.has_data()) return labels;
  std::vector<std::int64_t> columns = labels.to_host<std::int64_t>();
  for (std::int64_t& label : columns) label = sample_.position(label - shard_.begin);
  return Tensor::from_host(device_, labels.shape(), columns);
}

HeadOutput Head::forward_backward(const HeadInput& input) {
  check_labels(input);
  if (static_cast<int>(input.rows.size()) != samples_.size())
    fail("head: expected the rows of {} ranks, got {}", samples_.size(), input.rows.size());
  take_sample();
  const RowKernels& rows = device_.backend().rows();
  Tensor mine = config_.normalize ? Tensor::empty_like(input.embedding) : Tensor();
  Tensor embedding_scale = Tensor::empty(device_, {input.embedding.shape()[0]}, dtype_);
  rows.l2_normalize(input.embedding, norm_epsilon, mine, embedding_scale);
  check_finite(input, embedding_scale);
  if (!config_.normalize) mine = input.embedding;
  const auto count = static_cast<std::int64_t>(input.labels.size());
  const Tensor own_labels = Tensor::from_host(device_, {count}, input.labels);
  LogitsInput logits{.config = config_,
                     .ranks = ranks_,
                     .classes = *tiles_,
                     .columns = {},
                     .rows = config_.is_replicated() ? mine : Tensor(ranks_.all_gather(mine)),
                     .labels = config_.is_replicated() ? own_labels : Tensor(ranks_.all_gather(own_labels)),
                     .share = input.rows,
                     .loss_scale = 1.0 / static_cast<double>(input.global_batch),
                     .wants_loss = config_.has_loss(step_)};
  mine = Tensor();
  logits.labels = columns_of(logits.labels);
  for (int r = 0; r < ranks_.size(); ++r)
    logits.columns.push_back(config_.samples() ? ShardRange{0, tiles_->size()}
                                               : shard(config_.classes, ranks_.size(), r));
  LogitsResult result = compute(logits);

  kept_.push_back(std::move(result.kept));
  HeadOutput output;
  if (config_.is_replicated()) {
    output.embedding_gradient = std::move(result.gradient);
  } else {
    Work<Tensor> reducing = ranks_.reduce_scatter(std::exchange(result.gradient, Tensor()), input.rows);
    if (input.while_reducing) {
      check_finite_sums(input, kept_.back().log_sums);
      input.while_reducing();
    }
    output.embedding_gradient = reducing.wait();
  }
  if (config_.normalize)
    rows.l2_normalize_backward(input.embedding, embedding_scale, output.embedding_gradient, output.embedding_gradient);
  check_finite_gradient(output.embedding_gradient);
  if (result.loss.defined()) output.loss_sum = loss_sum(result.loss, logits.loss_scale);
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
  device_.backend().elementwise().reduce(ReduceOp::sum, losses, {1, losses.numel(), 1}, sum);
  device_.backend().elementwise().scale_add(scale, sum, 0, sum);
  return config_.is_replicated() && samples_.size() > 1 ? Tensor(samples_.all_reduce(sum)) : sum;
}

Tensor Head::tile_products(const ClassTile& tile) {
  const HeadKernels& kernels = device_.backend().head();
  Tensor sum = Tensor::empty(device_, {tile.selection.size, dimension()}, dtype_);
  const std::int64_t begin = (config_.samples() ? 0 : shard_.begin) + tile.begin;
  double beta = 0;
  for (const KeptRows& kept : kept_) {
    const std::int64_t batch = kept.rows.shape()[0];
    Tensor gradient = Tensor::empty(device_, {batch, tile.selection.size}, dtype_);
    if (config_.stash) {
      kernels.stashed_gradient(config_.margin, kept.loss_scale, kept.stash.reference(tile), tile.inverse_norm,
                               kept.log_sums, kept.target_logit, kept.target_slope, kept.labels, begin,
                               kept.stash.tile(tile, batch), gradient);
    } else {
      gemm(kept.rows, false, tile.rows, true, 1, 0, gradient);
      Tensor target_logit = Tensor::empty(device_, {batch}, dtype_);
      Tensor target_slope = Tensor::empty_like(target_logit);
      Tensor row_max = Tensor::empty_like(target_logit);
      kernels.margin_logits(config_.margin, tile.inverse_norm, tile.bias, kept.labels, begin, gradient, target_logit,
                            target_slope, row_max);
      kernels.margin_gradient(config_.margin, Tensor(), kept.log_sums, target_slope, kept.labels, begin,
                              kept.loss_scale, gradient);
    }
    gemm(gradient, true, kept.rows, false, 1, beta, sum);
    beta = 1;
  }
  if (kept_.empty()) sum.fill(0);
  return sum;
}

void Head::weight_tiles(const std::function<void(const ClassTile&, const Tensor&)>& consumer) {
  const MemoryScope scope(device_, Category::workspace);
  tiles_->for_each([&](const ClassTile& tile) { consumer(tile, tile_products(tile)); });
}

ClassStep Head::class_step(const HeadUpdate& update) const {
  return {.update = step_of(optimizer_, update.step - first_step_, update.learning_rate, optimizer_.weight_decay),
          .bound = update.bound,
          .factor = update.factor,
          .rounding = {.key = key_,
                       .purpose = Purpose::rounding,
                       .step = static_cast<std::uint32_t>(update.step),
                       .layer = stream_},
          .first_element = shard_.begin * dimension(),
          .taken = put_off_ ? put_off_->steps().count + 1 : 0};
}

void Head::update(const HeadUpdate& update) {
  const ClassStep step = class_step(update);
  weight_tiles([&](const ClassTile& tile, const Tensor& products) {
    device_.backend().class_rows().step(table_, tile.selection, tile.rows, tile.inverse_norm, products, step);
  });
  if (config_.samples() && config_.sample.unsampled == Unsampled::dense) step_unsampled(step);
  if (put_off_) put_off(step);
  table_.weight.storage()->changed();
  forget();
}

void Head::step_unsampled(const ClassStep& step) {
  const MemoryScope scope(device_, Category::workspace);
  std::vector<std::int64_t> others;
  auto sampled = sample_.rows.begin();
  for (std::int64_t row = 0; device_.has_data() && row < shard_.size; ++row) {
    if (sampled != sample_.rows.end() && *sampled == row)
      ++sampled;
    else
      others.push_back(row);
  }
  ClassTiles rest(table_, dtype_, false, tiles_->tile_size());
  rest.select(given(others, shard_.size - sample_.size));
  rest.for_each([&](const ClassTile& tile) {
    device_.backend().class_rows().step(table_, tile.selection, tile.rows, Tensor(), Tensor(), step);
  });
}

void Head::put_off(const ClassStep& step) {
  const auto& update = std::get<SgdStep>(step.update);
  put_off_->add(dtype_ == DType::f64 ? sgd_map<double>(update) : sgd_map<float>(update));
  if (put_off_->is_full()) catch_up_all();
}

void Head::catch_up_all() {
  if (!put_off_ || put_off_->steps().count == 0) return;
  device_.backend().class_rows().catch_up(table_, {.size = shard_.size}, put_off_->steps());
  table_.taken.fill(0);
  put_off_->clear();
  table_.weight.storage()->changed();
}

Tensor Head::weight_gradient() {
  Tensor gradient;
  {
    const MemoryScope scope(device_, Category::gradients);
    gradient = Tensor::empty(device_, {tiles_->size(), dimension()}, dtype_);
  }
  weight_tiles([&](const ClassTile& tile, const Tensor& products) {
    Tensor rows = gradient.rows(tile.begin, tile.end());
    if (config_.normalize)
      device_.backend().rows().l2_normalize_backward(tile.rows, tile.inverse_norm, products, rows);
    else
      rows.copy_from(products);
  });
  forget();
  return gradient;
}

void Head::store_weight_gradient() {
  weight_.gradient->add(weight_gradient());
}

void Head::add_squared_gradient(double bound, Tensor& result) {
  weight_tiles([&](const ClassTile& tile, const Tensor& products) {
    device_.backend().class_rows().add_squared_gradient(tile.rows, tile.inverse_norm, products, bound, result);
  });
}

}  // namespace heddle

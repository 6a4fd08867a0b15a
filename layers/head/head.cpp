#include "layers/head/head.h"

#include <array>

#include "framework/describe.h"
#include "framework/device.h"
#include "framework/ops/linear.h"
#include "framework/ops/shape.h"
#include "framework/tiles.h"

namespace heddle {

template <>
std::span<const std::string_view> names_of<Logits>() {
  static constexpr std::array<std::string_view, 2> names{"gathered", "sharded"};
  return names;
}

template <>
std::span<const std::string_view> names_of<HeadRanks>() {
  static constexpr std::array<std::string_view, 2> names{"all", "last_stage"};
  return names;
}

void describe(Describer& d, HeadConfig& c) {
  d.field(required("classes"), c.classes, between(2, 1e10), "number of identities; may exceed the data's");
  choice(d, "logits", c.logits, "where the logits live: all on rank 0, or sharded by class");
  choice(d, "ranks", c.ranks,
         "who shares the classes: all ranks of the mesh, which then meet for each micro-batch, or those of the last "
         "pipeline stage");
  object(d, "margin", c.margin, "the margin softmax");
  d.field("normalize", c.normalize, "cosines of unit embeddings and weights; else plain products");
  d.field("initial_deviation", c.initial_deviation, above(0), "standard deviation of the initial weights");
}

namespace {

constexpr double norm_epsilon = 1e-12;
// A tile's logits of one micro-batch are to stay in a core's cache with the weights they came from.
constexpr std::int64_t tile_classes = 4096;

const HeadKernels& head_kernels(const Tensor& t) {
  return t.device().backend().head();
}

Tensor statistics_row(const Tensor& logits) {
  return Tensor::empty(logits.device(), {logits.shape()[0]}, logits.dtype());
}

}  // namespace

AxisSet Head::axes(const HeadConfig& config) {
  return config.ranks == HeadRanks::all ? every_axis : AxisSet{Axis::dp, Axis::tp};
}

Head::Head(const HeadConfig& config, std::int64_t dimension, Rank& rank, Construction& construction)
    : config_(config), ranks_(rank.over(axes(config))), shard_(shard(config.classes, ranks_.size(), ranks_.rank())) {
  if (!config.normalize && (config.margin.m1 != 1 || config.margin.m2 != 0 || config.margin.m3 != 0))
    fail<InputError>("head: margins act on angles: with \"normalize\": false expected m1 = 1, m2 = 0, m3 = 0");
  ParameterPart part = ParameterPart::all_of({config.classes, dimension});
  part.box[0] = shard_;
  part.sharded = rank.mesh.larger_than_one(every_axis);
  weight_ = make_parameter(construction, "head.weight", part, Initial::normal(config.initial_deviation));
}

std::vector<LayerExchange> Head::exchanges(const HeadConfig& config, std::int64_t dimension, std::int64_t rows,
                                           const Mesh& mesh, DType dtype) {
  using When = LayerExchange::When;
  const AxisSet all = mesh.larger_than_one(axes(config));
  if (all.empty()) return {};
  std::vector<LayerExchange> exchanges{{When::forward, Operation::all_gather, all, rows * dimension, dtype},
                                       {When::forward, Operation::all_gather, all, rows, DType::i64}};
  if (config.logits == Logits::sharded) {
    exchanges.push_back({When::forward, Operation::all_reduce, all, rows, dtype});
    exchanges.push_back({When::forward, Operation::all_reduce, all, 2 * rows, DType::f64});
  } else {
    exchanges.push_back({When::forward, Operation::gather, all, rows * config.classes, dtype});
    if (config.normalize) exchanges.push_back({When::forward, Operation::gather, all, config.classes, dtype});
    exchanges.push_back({When::forward, Operation::broadcast, all, 2 * rows, dtype});
    exchanges.push_back({When::backward, Operation::scatter, all, rows * config.classes, dtype});
  }
  exchanges.push_back({When::backward, Operation::reduce_scatter, all, rows * dimension, dtype});
  return exchanges;
}

void Head::check_labels(const HeadInput& input) const {
  for (std::size_t i = 0; i < input.labels.size(); ++i)
    if (input.labels[i] < 0 || input.labels[i] >= config_.classes)
      fail<InputError>("head: sample {} of the batch has label {}, expected one in [0, {})",
                       input.first_sample + static_cast<std::int64_t>(i), input.labels[i], config_.classes);
}

Tensor Head::class_scale() {
  if (!config_.normalize) return {};
  if (!inverse_norm_.defined()) {
    const MemoryScope scope(weight_.value.device(), Category::workspace);
    Tensor none;
    inverse_norm_ = Tensor::empty(weight_.value.device(), {shard_.size}, weight_.value.dtype());
    weight_.value.device().backend().rows().l2_normalize(weight_.value, norm_epsilon, none, inverse_norm_);
  }
  return inverse_norm_;
}

HeadOutput Head::forward_backward(const HeadInput& input) {
  check_labels(input);
  if (static_cast<int>(input.rows.size()) != ranks_.size())
    fail("head: expected the rows of {} ranks, got {}", ranks_.size(), input.rows.size());
  Device& device = weight_.value.device();
  const RowKernels& rows = device.backend().rows();
  const double loss_scale = 1.0 / static_cast<double>(input.global_batch);
  Tensor mine = input.embedding;
  Tensor embedding_scale;
  if (config_.normalize) {
    mine = Tensor::empty_like(input.embedding);
    embedding_scale = Tensor::empty(device, {mine.shape()[0]}, mine.dtype());
    rows.l2_normalize(input.embedding, norm_epsilon, mine, embedding_scale);
  }
  const Tensor all = ranks_.all_gather(mine);
  mine = Tensor();
  const auto count = static_cast<std::int64_t>(input.labels.size());
  const Tensor labels = ranks_.all_gather(Tensor::from_host(device, {count}, input.labels));

  Tensor logits = Tensor::empty(device, {all.shape()[0], shard_.size}, all.dtype());
  gemm(all, false, weight_.value, true, 1, 0, logits);
  const RowResult result = config_.logits == Logits::gathered ? gathered_loss(logits, labels, loss_scale)
                                                              : sharded_loss(logits, labels, loss_scale);
  Tensor gradient = Tensor::empty_like(all);
  gemm(logits, false, weight_.value, false, 1, 0, gradient);
  logits = Tensor();

  HeadOutput output;
  output.embedding_gradient = ranks_.reduce_scatter(gradient, input.rows);
  gradient = Tensor();
  if (config_.normalize)
    rows.l2_normalize_backward(input.embedding, embedding_scale, output.embedding_gradient, output.embedding_gradient);
  output.loss_sum = Tensor::empty(device, {}, all.dtype());
  device.backend().elementwise().reduce(ReduceOp::sum, result.loss, {1, result.loss.numel(), 1}, output.loss_sum);
  device.backend().elementwise().scale_add(loss_scale, output.loss_sum, 0, output.loss_sum);
  kept_.push_back({all, labels, result.log_sums, loss_scale});
  return output;
}

Head::RowResult Head::sharded_loss(Tensor& logits, const Tensor& labels, double loss_scale) {
  Device& device = logits.device();
  const std::int64_t batch = logits.shape()[0];
  const Tensor scale = class_scale();
  Tensor target_logit = statistics_row(logits);
  Tensor target_slope = statistics_row(logits);
  Tensor row_max = statistics_row(logits);
  head_kernels(logits).margin_logits(config_.margin, scale, labels, shard_.begin, logits, target_logit, target_slope,
                                     row_max);
  row_max = ranks_.all_reduce(row_max, Reduction::max);
  // One exchange for both: sums of exponentials are f64, and the target's logit loses nothing there.
  Tensor sums = Tensor::empty(device, {2, batch}, DType::f64);
  Tensor exponentials = sums.rows(0, 1).reshape({batch});
  Tensor target = sums.rows(1, 2).reshape({batch});
  head_kernels(logits).exponential_sums(logits, row_max, exponentials);
  device.backend().elementwise().cast(target_logit, target);
  sums = ranks_.all_reduce(sums, Reduction::sum);
  device.backend().elementwise().cast(sums.rows(1, 2), target_logit);
  RowResult result{statistics_row(logits), statistics_row(logits)};
  head_kernels(logits).margin_loss(row_max, sums.rows(0, 1).reshape({batch}), target_logit, result.log_sums,
                                   result.loss);
  head_kernels(logits).margin_gradient(config_.margin, scale, result.log_sums, target_slope, labels, shard_.begin,
                                       loss_scale, logits);
  return result;
}

Head::RowResult Head::gathered_loss(Tensor& logits, const Tensor& labels, double loss_scale) {
  constexpr int root = 0;
  Device& device = logits.device();
  const std::int64_t batch = logits.shape()[0];
  const Tensor scale = class_scale();
  std::vector<Tensor> parts = [&] {
    const MemoryScope scope(device, Category::communication);
    return std::vector<Tensor>(ranks_.gather(logits, root));
  }();
  // Naive in where the logits go, not wasteful: the root never holds them more than twice.
  logits = Tensor();
  const std::vector<Tensor> scales = scale.defined() ? ranks_.gather(scale, root) : std::vector<Tensor>{};
  std::vector<Tensor> gradients;
  Tensor statistics;  // [2, B]: log-sum-exps and losses
  if (ranks_.rank() == root) {
    Tensor whole = concat_tensors(parts, 1);
    parts.clear();
    const Tensor whole_scale = scales.empty() ? Tensor() : concat_tensors(scales, 0);
    Tensor target_logit = statistics_row(whole);
    Tensor target_slope = statistics_row(whole);
    Tensor row_max = statistics_row(whole);
    Tensor sums = Tensor::empty(device, {batch}, DType::f64);
    statistics = Tensor::empty(device, {2, batch}, whole.dtype());
    Tensor log_sums = statistics.rows(0, 1).reshape({batch});
    Tensor loss = statistics.rows(1, 2).reshape({batch});
    const HeadKernels& kernels = head_kernels(whole);
    kernels.margin_logits(config_.margin, whole_scale, labels, 0, whole, target_logit, target_slope, row_max);
    kernels.exponential_sums(whole, row_max, sums);
    kernels.margin_loss(row_max, sums, target_logit, log_sums, loss);
    kernels.margin_gradient(config_.margin, whole_scale, log_sums, target_slope, labels, 0, loss_scale, whole);
    for (int rank = 0; rank < ranks_.size(); ++rank) {
      const ShardRange range = shard(config_.classes, ranks_.size(), rank);
      gradients.push_back(slice_tensor(whole, 1, range.begin, range.begin + range.size));
    }
  }
  statistics = ranks_.broadcast(statistics, root);
  logits = ranks_.scatter(gradients, root);
  return {statistics.rows(0, 1).reshape({batch}), statistics.rows(1, 2).reshape({batch})};
}

void Head::weight_gradient(const TileConsumer& consumer) {
  Device& device = weight_.value.device();
  const MemoryScope scope(device, Category::workspace);
  const Tensor scale = class_scale();
  const DType dtype = weight_.value.dtype();
  for_each_tile(device, shard_.size, tile_classes, [&](std::int64_t begin, std::int64_t end) {
    const Tensor tile = weight_.value.rows(begin, end);
    const Tensor tile_scale = scale.defined() ? scale.rows(begin, end) : Tensor();
    Tensor sum = Tensor::empty_like(tile);
    double beta = 0;
    for (const Kept& kept : kept_) {
      const std::int64_t batch = kept.rows.shape()[0];
      Tensor logits = Tensor::empty(device, {batch, end - begin}, dtype);
      gemm(kept.rows, false, tile, true, 1, 0, logits);
      Tensor target_logit = statistics_row(logits);
      Tensor target_slope = statistics_row(logits);
      Tensor row_max = statistics_row(logits);
      head_kernels(logits).margin_logits(config_.margin, tile_scale, kept.labels, shard_.begin + begin, logits,
                                         target_logit, target_slope, row_max);
      head_kernels(logits).margin_gradient(config_.margin, Tensor(), kept.log_sums, target_slope, kept.labels,
                                           shard_.begin + begin, kept.loss_scale, logits);
      gemm(logits, true, kept.rows, false, 1, beta, sum);
      beta = 1;
    }
    if (config_.normalize) device.backend().rows().l2_normalize_backward(tile, tile_scale, sum, sum);
    consumer(begin, sum);
  });
  kept_.clear();
  inverse_norm_ = Tensor();
}

void Head::store_weight_gradient() {
  Tensor gradient;
  {
    const MemoryScope scope(weight_.value.device(), Category::gradients);
    gradient = Tensor::empty_like(weight_.value);
  }
  weight_gradient([&gradient](std::int64_t begin, const Tensor& tile) {
    gradient.rows(begin, begin + tile.shape()[0]).copy_from(tile);
  });
  weight_.gradient->add(std::move(gradient));
}

}  // namespace heddle

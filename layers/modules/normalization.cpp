#include "layers/modules/normalization.h"

#include "framework/ops/shape.h"
#include "framework/tensors/device.h"
#include "layers/modules/activation.h"

namespace heddle {

namespace {

using permutation = std::vector<std::int64_t>;

/// Axes whose ranks hold samples of one group, and axes whose ranks hold different groups.
struct StatisticsAxes {
  AxisSet shared;
  AxisSet separate;
};
StatisticsAxes statistics_axes(const BatchNormOptions& options, const LayerLayout& layout) {
  StatisticsAxes axes{layout.axes(Parallel::data), {}};
  if (!options.synchronized && axes.shared.contains(Axis::dp)) {
    axes.shared.erase(Axis::dp);
    axes.separate.insert(Axis::dp);
  }
  return axes;
}

class BatchNormSpec final : public LayerSpec {
 public:
  BatchNormSpec(BatchNormOptions options, bool with_residual)
      : options_(std::move(options)), with_residual_(with_residual) {}

  std::string_view type() const override { return "batch_norm"; }
  std::int64_t norm_groups(std::int64_t dp, std::int64_t micro_batches) const override {
    return (options_.synchronized ? 1 : dp) * micro_batches;
  }
  Shape output(std::span<const Shape> inputs) const override {
    const std::size_t expected = with_residual_ ? 2 : 1;
    if (inputs.size() != expected) fail<InputError>("batch_norm: expected {} inputs, got {}", expected, inputs.size());
    if (inputs[0].rank() < 2 || inputs[0].back() != options_.channels)
      fail<InputError>("batch_norm: expected {} channels, got {}", options_.channels, to_string(inputs[0]));
    if (with_residual_ && inputs[1] != inputs[0])
      fail<InputError>("batch_norm: expected a residual like {}, got {}", to_string(inputs[0]), to_string(inputs[1]));
    return inputs[0];
  }
  std::vector<Shape> parameters() const override {
    return std::vector<Shape>(options_.activation == NormActivation::prelu ? 3 : 2, Shape{options_.channels});
  }
  bool trains(std::size_t parameter) const override { return parameter > 0 || !options_.fixed_scale; }
  std::variant<LayerOption, Refusal> option(Parallel kind, AxisUse use, std::span<const Shape> inputs) const override {
    // Along dp the samples of each rank are a group.
    if (use.axis == Axis::dp && !options_.synchronized && kind != Parallel::data)
      return Refusal{"it normalises the samples of each dp rank separately unless it is synchronized"};
    auto option = samples_or_channels(kind, use, inputs, inputs[0], parameters().size());
    auto* const possible = std::get_if<LayerOption>(&option);
    // A parameter that is not trained has no gradient to sum.
    if (possible != nullptr && options_.fixed_scale && possible->parameters[0].gradient() == Spread::partial)
      possible->parameters[0] = Placement::replicate();
    return option;
  }
  std::vector<LayerCollective> collectives(const LayerLayout& layout, DType dtype,
                                           std::int64_t micro_batches) const override {
    using When = LayerCollective::When;
    const DType type = compute_dtype(dtype);
    const std::int64_t channels = layout.part(0, {options_.channels}).shape()[0];
    const std::int64_t row = 2 * channels + 1;
    const StatisticsAxes axes = statistics_axes(options_, layout);
    std::vector<LayerCollective> result;
    if (const int ranks = layout.mesh.size(axes.shared); ranks > 1) {
      result.push_back({When::forward, Operation::all_gather, axes.shared, row * ranks, type});
      result.push_back({When::backward, Operation::all_reduce, axes.shared, 2 * channels, type});
    }
    const int ranks = layout.mesh.size(axes.separate);
    if (ranks > 1)
      result.push_back({When::step_end, Operation::all_gather, axes.separate, row * ranks * micro_batches, type});
    if (const int copies = layout.mesh.size(Axis::copies); copies > 1)
      result.push_back(
          {When::step_end, Operation::all_gather, {Axis::copies}, row * ranks * micro_batches * copies, type});
    return result;
  }
  LayerPointer build(Construction& construction, const std::string& name, const LayerLayout& layout) const override {
    return std::make_unique<BatchNorm>(construction, name, options_, layout);
  }
  InferenceValue write(InferenceGraph& graph, const std::string& name, const InferenceInputs& inputs) const override {
    const auto channels = [&](const char* tensor) {
      return graph.tensor(channel_tensor(fmt::format("{}.{}", name, tensor), inputs));
    };
    const std::string scale = channels("weight");
    const std::string shift = channels("bias");
    const std::string mean = channels("running_mean");
    const std::string variance = channels("running_var");
    const auto normalized = [&](const std::string& output, const std::string& x) {
      return graph.node(output, "BatchNormalization", {x, scale, shift, mean, variance},
                        {{"epsilon", static_cast<float>(options_.epsilon)}});
    };
    InferenceValue y{"", inputs.values[0].image};
    if (inputs.samples[0].rank() == 2) {  // tokens; ONNX has the channels in front
      const std::map<std::string, InferenceAttribute> swapped{{"perm", permutation{0, 2, 1}}};
      const std::string first = graph.node(name + ".channels_first", "Transpose", {inputs.name()}, swapped);
      y.name = graph.node(name, "Transpose", {normalized(name + ".normalized", first)}, swapped);
    } else {
      y.name = normalized(name, inputs.name());
    }
    if (with_residual_) y = graph.sum(name + ".sum", y, inputs.values[1]);
    if (options_.activation == NormActivation::relu) y.name = graph.node(name + ".relu", "Relu", {y.name});
    if (options_.activation == NormActivation::prelu)
      y = PRelu::write(graph, options_.slope_name, {{&y, 1}, inputs.samples});
    return y;
  }

 private:
  BatchNormOptions options_;
  bool with_residual_;
};

class LayerNormSpec final : public LayerSpec {
 public:
  LayerNormSpec(std::int64_t channels, double epsilon) : channels_(channels), epsilon_(epsilon) {}

  std::string_view type() const override { return "layer_norm"; }
  Shape output(std::span<const Shape> inputs) const override {
    if (inputs.size() != 1 || inputs[0].rank() < 2 || inputs[0].back() != channels_)
      fail<InputError>("layer_norm: expected one input of {} channels, got {}", channels_, to_string(inputs[0]));
    return inputs[0];
  }
  std::vector<Shape> parameters() const override { return {{channels_}, {channels_}}; }
  std::variant<LayerOption, Refusal> option(Parallel kind, AxisUse use, std::span<const Shape> inputs) const override {
    return kind == Parallel::sequence ? sequence_option(use, inputs, 2) : samples_ungathered(kind, 1, 2);
  }
  InferenceValue write(InferenceGraph& graph, const std::string& name, const InferenceInputs& inputs) const override {
    const std::string scale = graph.tensor(channel_tensor(name + ".weight", inputs));
    const std::string shift = graph.tensor(channel_tensor(name + ".bias", inputs));
    const std::map<std::string, InferenceAttribute> attributes{{"epsilon", static_cast<float>(epsilon_)}};
    if (!inputs.is_image())
      return {graph.node(name, "LayerNormalization", {inputs.name(), scale, shift}, attributes),
              inputs.values[0].image};
    const std::string last =
        graph.node(name + ".channels_last", "Transpose", {inputs.name()}, {{"perm", permutation{0, 2, 3, 1}}});
    const std::string y = graph.node(name + ".normalized", "LayerNormalization", {last, scale, shift}, attributes);
    return {graph.node(name, "Transpose", {y}, {{"perm", permutation{0, 3, 1, 2}}})};
  }
  LayerPointer build(Construction& construction, const std::string& name, const LayerLayout& layout) const override {
    return std::make_unique<LayerNorm>(construction, name, channels_, epsilon_, layout);
  }

 private:
  std::int64_t channels_;
  double epsilon_;
};

/// The ranks that hold samples of one group.
class RankStatistics final : public StatisticsGroup {
 public:
  explicit RankStatistics(Communicator& ranks) : ranks_(ranks) {}
  Tensor gather(const Tensor& row) override { return ranks_.all_gather(row); }
  Tensor sum(const Tensor& sums) override { return ranks_.all_reduce(sums); }

 private:
  Communicator& ranks_;
};

/// The rows [micro-batch, rank, width] of both copies of the stage, of which each has seen every second micro-batch, in
/// the order of the micro-batches. `mine` has those of this rank's copy, which has seen the first one if `is_first`.
Tensor of_all_copies(const Tensor& mine, std::int64_t micro_batches, Communicator& copies, bool is_first) {
  const std::int64_t width = mine.numel() / micro_batches;
  const Tensor gathered = copies.all_gather(mine.reshape({micro_batches, width}));
  const bool is_in_order = is_first == (copies.rank() == 0);
  std::vector<Tensor> by_copy{gathered.rows(0, micro_batches), gathered.rows(micro_batches, 2 * micro_batches)};
  if (!is_in_order) std::swap(by_copy[0], by_copy[1]);
  return transpose(Variable(concat_tensors(by_copy, 0).reshape({2, micro_batches, width})), {1, 0, 2}).value();
}

}  // namespace

LayerSpecPointer BatchNorm::spec(const BatchNormOptions& options, bool with_residual) {
  return std::make_shared<BatchNormSpec>(options, with_residual);
}

BatchNorm::BatchNorm(Construction& construction, const std::string& name, const BatchNormOptions& options,
                     const LayerLayout& layout)
    : options_(options),
      shared_(statistics_axes(options, layout).shared),
      separate_(statistics_axes(options, layout).separate) {
  const ParameterPart part = layout.part(0, {options.channels});
  gamma_ = make_parameter(construction, name + ".weight", part, Initial::constant(options.initial_scale),
                          {.is_norm_or_bias = true, .trainable = !options.fixed_scale});
  beta_ = make_parameter(construction, name + ".bias", layout.part(1, {options.channels}), Initial::constant(0),
                         {.is_norm_or_bias = true});
  if (options.activation == NormActivation::prelu)
    slope_ = make_parameter(construction, options.slope_name + ".weight", layout.part(2, {options.channels}),
                            Initial::constant(0.25), {.is_norm_or_bias = true});
  running_mean_ = make_buffer(construction, name + ".running_mean", part, 0);
  running_variance_ = make_buffer(construction, name + ".running_var", part, 1);
}

Variable BatchNorm::forward(std::span<const Variable> inputs, const Pass& pass) {
  const NormEpilogue epilogue{.activation = options_.activation,
                              .slope = slope_ ? slope_->variable : Variable(),
                              .residual = inputs.size() > 1 ? inputs[1] : Variable()};
  if (!pass.training)
    return batch_norm_inference(inputs[0], running_mean_.value, running_variance_.value, gamma_.variable,
                                beta_.variable, options_.epsilon, epilogue);
  std::shared_ptr<StatisticsGroup> group;
  if (!shared_.empty()) group = std::make_shared<RankStatistics>(pass.rank.over(shared_));
  Tensor statistics;
  Variable y = batch_norm(inputs[0], gamma_.variable, beta_.variable, options_.epsilon, epilogue, statistics, group);
  if (!pass.recomputing) groups_.emplace(pass.samples.begin, std::move(statistics));
  return y;
}

void BatchNorm::end_step(Rank& rank) {
  if (groups_.empty()) return;
  const MemoryScope scope(rank.device, Category::workspace);
  const auto micro_batches = static_cast<std::int64_t>(groups_.size());
  const bool has_first_sample = groups_.begin()->first == 0;
  std::vector<Tensor> rows;
  for (auto& [first_sample, row] : groups_) rows.push_back(std::move(row));
  const std::int64_t width = rows[0].numel();
  const Tensor mine = concat_tensors(rows, 0).reshape({micro_batches, width});
  rows.clear();
  groups_.clear();
  // The rows are gathered rank by rank, but the order of the batch is micro-batch by micro-batch, each over all ranks.
  const Tensor gathered = rank.over(separate_).all_gather(mine);
  const std::int64_t ranks = gathered.shape()[0] / micro_batches;
  Tensor ordered = gathered;
  if (ranks > 1 && micro_batches > 1)
    ordered = transpose(Variable(gathered.reshape({ranks, micro_batches, width})), {1, 0, 2}).value();
  if (rank.mesh.size(Axis::copies) > 1)
    ordered = of_all_copies(ordered, micro_batches, rank.over({Axis::copies}), has_first_sample);
  rank.device.backend().normalization().merge_moments(ordered.reshape({ordered.numel() / width, width}),
                                                      options_.momentum, running_mean_.value, running_variance_.value);
}

std::vector<Parameter*> BatchNorm::parameters() {
  if (slope_) return {&gamma_, &beta_, &*slope_};
  return {&gamma_, &beta_};
}

LayerSpecPointer LayerNorm::spec(std::int64_t channels, double epsilon) {
  return std::make_shared<LayerNormSpec>(channels, epsilon);
}

LayerNorm::LayerNorm(Construction& construction, const std::string& name, std::int64_t channels, double epsilon,
                     const LayerLayout& layout)
    : epsilon_(epsilon),
      gamma_(make_parameter(construction, name + ".weight", layout.part(0, {channels}), Initial::constant(1),
                            {.is_norm_or_bias = true})),
      beta_(make_parameter(construction, name + ".bias", layout.part(1, {channels}), Initial::constant(0),
                           {.is_norm_or_bias = true})) {}

Variable LayerNorm::forward(std::span<const Variable> inputs, const Pass& /*pass*/) {
  return layer_norm(inputs[0], gamma_.variable, beta_.variable, epsilon_);
}

}  // namespace heddle

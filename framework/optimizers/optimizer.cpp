#include "framework/optimizers/optimizer.h"

#include <algorithm>
#include <array>

#include "framework/description/describe.h"
#include "framework/ops/elementwise.h"
#include "framework/tensors/device.h"

namespace heddle {

namespace {

void describe_common(Describer& d, OptimizerConfig& c, const char* weight_decay_help) {
  d.field("lr", c.learning_rate, above(0), "learning rate, which the schedule changes");
  d.field("weight_decay", c.weight_decay, at_least(0), weight_decay_help);
  d.field("decay_norms_and_biases", c.decay_norms_and_biases,
          "whether norms, slopes, biases, position embeddings, class tokens and mask tokens decay too");
  d.field("layer_decay", c.layer_decay, Range{.minimum = 0, .maximum = 1, .excludes_minimum = true},
          "factor of the learning rate from each block of the backbone to the one before it; after the last block the "
          "rate is lr");
}

void describe_sgd(Describer& d, OptimizerConfig& c) {
  describe_common(d, c, "factor of the weight that is added to its gradient");
  d.field("momentum", c.momentum, from_to_below(0, 1), "factor of the previous step's velocity");
  d.field("nesterov", c.nesterov, "whether to use Nesterov's momentum");
  constexpr std::array types{DType::f32, DType::bf16, DType::f16};
  choice(d, "weights", c.weights, types,
         "type of parameters of several dimensions (weights of convolutions and linear layers, position embeddings, "
         "tokens), of their gradients and velocity: f32, or with train.dtype bf16 or f16 also that type, which halves "
         "the bytes and is stepped with stochastic rounding");
}

void describe_adamw(Describer& d, OptimizerConfig& c) {
  describe_common(d, c, "decoupled weight decay: each step also subtracts lr * weight_decay * weight");
  d.field("beta1", c.beta1, from_to_below(0, 1), "decay of the gradient's running mean");
  d.field("beta2", c.beta2, from_to_below(0, 1), "decay of the running mean of its square");
  d.field("epsilon", c.epsilon, above(0), "added to the square root of that mean");
}

constexpr auto optimizers = enum_table<OptimizerType, AlternativeRow<OptimizerConfig>>({
    {OptimizerType::sgd, {"sgd", "stochastic gradient descent with momentum, as in PyTorch", describe_sgd}},
    {OptimizerType::adamw, {"adamw", "Adam with decoupled weight decay", describe_adamw}},
});

}  // namespace

void describe_optimizer(Describer& d, const char* key, OptimizerConfig& c) {
  tagged(d, key, c.type, optimizers, c, "how gradients change the weights");
}

OptimizerStep step_of(const OptimizerConfig& config, std::int64_t step, double learning_rate, double weight_decay) {
  if (config.type == OptimizerType::adamw)
    return AdamWStep{.learning_rate = learning_rate,
                     .beta1 = config.beta1,
                     .beta2 = config.beta2,
                     .epsilon = config.epsilon,
                     .weight_decay = weight_decay,
                     .step = step + 1};
  return SgdStep{.learning_rate = learning_rate,
                 .momentum = config.momentum,
                 .weight_decay = weight_decay,
                 .nesterov = config.nesterov};
}

Optimizer::Optimizer(const OptimizerConfig& config, std::vector<TrainedWeight> weights)
    : config_(config), weights_(std::move(weights)) {}

void Optimizer::step(std::int64_t step, double learning_rate, const std::vector<Tensor>& gradients,
                     const std::vector<double>& scales) {
  if (gradients.size() != weights_.size())
    fail("optimizer: expected {} gradients, got {}", weights_.size(), gradients.size());
  if (!scales.empty() && scales.size() != weights_.size())
    fail("optimizer: expected {} scales, got {}", weights_.size(), scales.size());
  std::vector<WeightStep> steps;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    if (!gradients[i].defined()) continue;
    TrainedWeight& trained = weights_[i];
    const DType type = trained.weight.dtype();
    const bool is_alike =
        gradients[i].dtype() == type || (trained.rounding && gradients[i].dtype() == compute_dtype(type));
    if (gradients[i].shape() != trained.weight.shape() || !is_alike)
      fail("optimizer: {} is {}, its gradient {}", trained.name, to_string(trained.weight), to_string(gradients[i]));
    const double scale = scales.empty() ? 1 : scales[i];
    if (scale != 1 && !trained.rounding)
      fail("optimizer: {} is not rounded stochastically: expected a gradient without a scale, got {}", trained.name,
           scale);
    const bool decays = config_.decay_norms_and_biases || !trained.is_norm_or_bias;
    const OptimizerStep constants = step_of(config_, step - trained.first_step, learning_rate * trained.rate_factor,
                                            decays ? config_.weight_decay : 0);
    steps.push_back({i, constants, gradients[i], scale});
  }
  update(step, steps);
  for (const WeightStep& each : steps) weights_[each.index].weight.storage()->changed();
}

void Optimizer::set_first_step(const std::string& weight, std::int64_t step) {
  for (TrainedWeight& trained : weights_)
    if (trained.name == weight) trained.first_step = step;
}

std::vector<Tensor> Optimizer::zeros() const {
  std::vector<Tensor> state;
  for (const TrainedWeight& trained : weights_) {
    const MemoryScope scope(trained.weight.device(), Category::optimizer);
    const DType type = trained.weight.dtype();
    state.push_back(
        Tensor::zeros(trained.weight.device(), trained.weight.shape(), trained.rounding ? type : compute_dtype(type)));
  }
  return state;
}

std::vector<Optimizer::State> Optimizer::named(const std::string& prefix, const std::vector<Tensor>& tensors) const {
  std::vector<State> states;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    states.push_back({prefix + "." + weights_[i].name, weights_[i].name, tensors[i]});
  return states;
}

namespace {

/// Some rows of a flat tensor [n].
Tensor rows_between(const Tensor& flat, const WeightRows& rows, std::int64_t begin, std::int64_t end) {
  return flat.rows(rows.held + begin * rows.columns, rows.held + end * rows.columns)
      .reshape({end - begin, rows.columns});
}

/// Steps a 16-bit weight like the class rows of a head, whose kernels round each element by the draw of its index in
/// the whole parameter.
void step_rounded(const TrainedWeight& trained, const Tensor& velocity, const Tensor& gradient, std::int64_t step,
                  const OptimizerStep& constants, double scale) {
  constexpr std::int64_t max_elements = std::int64_t{1} << 18;  // a gradient of this size stays in the cache in f32
  const auto flat = [](const Tensor& x) { return x.defined() ? x.reshape({x.numel()}) : x; };
  const WeightRounding& rounding = *trained.rounding;
  const ClassRowKernels& kernels = gradient.device().backend().class_rows();
  const MemoryScope scope(gradient.device(), Category::workspace);
  for (const WeightRows& rows : rounding.rows) {
    const std::int64_t at_once = std::max<std::int64_t>(max_elements / rows.columns, 1);
    for (std::int64_t begin = 0; begin < rows.rows; begin += at_once) {
      const std::int64_t end = std::min(begin + at_once, rows.rows);
      const auto part = [&](const Tensor& x) { return x.defined() ? rows_between(flat(x), rows, begin, end) : x; };
      ClassTable table{.weight = part(trained.weight), .momentum = part(velocity)};
      kernels.step(table, {.size = end - begin}, table.weight, Tensor(), in_type(part(gradient), DType::f32),
                   {.update = constants,
                    .factor = 1 / scale,
                    .rounding = {rounding.key, Purpose::rounding, static_cast<std::uint32_t>(step), rounding.stream},
                    .first_element = rows.whole + begin * rows.stride,
                    .row_stride = rows.stride});
    }
  }
}

class Sgd final : public Optimizer {
 public:
  Sgd(const OptimizerConfig& config, std::vector<TrainedWeight> weights) : Optimizer(config, std::move(weights)) {
    // A zero velocity gives the same first step as PyTorch's velocity, which starts as the gradient.
    if (config_.momentum > 0) velocity_ = zeros();
  }
  std::vector<State> state() const override { return named("velocity", velocity_); }

 private:
  void update(std::int64_t step, std::span<const WeightStep> steps) override {
    std::vector<SgdWeight> stepped;
    for (const auto& [index, constants, gradient, scale] : steps) {
      const TrainedWeight& trained = weights_[index];
      const Tensor velocity = velocity_.empty() ? Tensor() : velocity_[index];
      if (trained.rounding)
        step_rounded(trained, velocity, gradient, step, constants, scale);
      else
        stepped.push_back({std::get<SgdStep>(constants), gradient, trained.weight, velocity});
    }
    if (!stepped.empty()) stepped.front().weight.device().backend().training().sgd(stepped);
  }

  std::vector<Tensor> velocity_;
};

class AdamW final : public Optimizer {
 public:
  AdamW(const OptimizerConfig& config, std::vector<TrainedWeight> weights)
      : Optimizer(config, std::move(weights)), mean_(zeros()), square_(zeros()) {}
  std::vector<State> state() const override {
    std::vector<State> states = named("mean", mean_);
    for (State& s : named("square", square_)) states.push_back(std::move(s));
    return states;
  }

 private:
  void update(std::int64_t /*step*/, std::span<const WeightStep> steps) override {
    std::vector<AdamWWeight> stepped;
    for (const auto& [index, constants, gradient, scale] : steps)
      stepped.push_back(
          {std::get<AdamWStep>(constants), gradient, weights_[index].weight, mean_[index], square_[index]});
    if (!stepped.empty()) stepped.front().weight.device().backend().training().adamw(stepped);
  }

  std::vector<Tensor> mean_;
  std::vector<Tensor> square_;
};

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, std::vector<TrainedWeight> weights) {
  if (config.type == OptimizerType::adamw) return std::make_unique<AdamW>(config, std::move(weights));
  return std::make_unique<Sgd>(config, std::move(weights));
}

}  // namespace heddle

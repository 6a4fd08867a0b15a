#include "framework/optimizer.h"

#include <array>

#include "framework/describe.h"
#include "framework/device.h"

namespace heddle {

void describe_optimizer(Describer& d, const char* key, OptimizerConfig& c) {
  const auto common = [&c](Describer& inner) {
    inner.field("lr", c.learning_rate, above(0), "learning rate before its schedule");
    inner.field("weight_decay", c.weight_decay, at_least(0), "factor of the weight that is added to its gradient");
    inner.field("decay_norms_and_biases", c.decay_norms_and_biases, "whether norms, slopes and biases decay too");
  };
  const std::array<Describer::Alternative, 2> kinds{
      {{"sgd", "stochastic gradient descent with momentum, as PyTorch has it",
        [&c, common](Describer& inner) {
          common(inner);
          inner.field("momentum", c.momentum, from_to_below(0, 1), "share of the last step's velocity that is kept");
          inner.field("nesterov", c.nesterov, "look ahead along the velocity");
        }},
       {"adamw", "Adam with decoupled weight decay", [&c, common](Describer& inner) {
          common(inner);
          inner.field("beta1", c.beta1, from_to_below(0, 1), "decay of the gradient's running mean");
          inner.field("beta2", c.beta2, from_to_below(0, 1), "decay of the square's running mean");
          inner.field("epsilon", c.epsilon, above(0), "added to the root of the square");
        }}}};
  int type = static_cast<int>(c.type);
  d.tagged(key, type, kinds, "how gradients change the weights");
  c.type = static_cast<OptimizerType>(type);
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

Optimizer::Optimizer(const OptimizerConfig& config, std::vector<Trained> weights)
    : config_(config), weights_(std::move(weights)) {}

void Optimizer::step(std::int64_t step, double learning_rate, const std::vector<Tensor>& gradients) {
  if (gradients.size() != weights_.size())
    fail("optimizer: expected {} gradients, got {}", weights_.size(), gradients.size());
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    if (!gradients[i].defined()) continue;
    Trained& trained = weights_[i];
    if (gradients[i].shape() != trained.weight.shape() || gradients[i].dtype() != trained.weight.dtype())
      fail("optimizer: {} is {}, its gradient {}", trained.name, to_string(trained.weight), to_string(gradients[i]));
    const bool decays = config_.decay_norms_and_biases || !trained.is_norm_or_bias;
    update(i, step_of(config_, step - trained.first_step, learning_rate, decays ? config_.weight_decay : 0),
           gradients[i]);
    trained.weight.storage()->changed();
  }
}

void Optimizer::set_first_step(const std::string& weight, std::int64_t step) {
  for (Trained& trained : weights_)
    if (trained.name == weight) trained.first_step = step;
}

std::vector<Tensor> Optimizer::zeros() const {
  std::vector<Tensor> state;
  for (const Trained& trained : weights_) {
    const MemoryScope scope(trained.weight.device(), Category::optimizer);
    state.push_back(
        Tensor::zeros(trained.weight.device(), trained.weight.shape(), compute_dtype(trained.weight.dtype())));
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

class Sgd final : public Optimizer {
 public:
  Sgd(const OptimizerConfig& config, std::vector<Trained> weights) : Optimizer(config, std::move(weights)) {
    // A zero velocity gives the same first step as PyTorch's, which begins as the gradient.
    if (config_.momentum > 0) velocity_ = zeros();
  }
  std::vector<State> state() const override { return named("velocity", velocity_); }

 private:
  void update(std::size_t index, const OptimizerStep& step, const Tensor& gradient) override {
    Tensor none;
    gradient.device().backend().training().sgd(std::get<SgdStep>(step), gradient, weights_[index].weight,
                                               velocity_.empty() ? none : velocity_[index]);
  }

  std::vector<Tensor> velocity_;
};

class AdamW final : public Optimizer {
 public:
  AdamW(const OptimizerConfig& config, std::vector<Trained> weights)
      : Optimizer(config, std::move(weights)), mean_(zeros()), square_(zeros()) {}
  std::vector<State> state() const override {
    std::vector<State> states = named("mean", mean_);
    for (State& s : named("square", square_)) states.push_back(std::move(s));
    return states;
  }

 private:
  void update(std::size_t index, const OptimizerStep& step, const Tensor& gradient) override {
    gradient.device().backend().training().adamw(std::get<AdamWStep>(step), gradient, weights_[index].weight,
                                                 mean_[index], square_[index]);
  }

  std::vector<Tensor> mean_;
  std::vector<Tensor> square_;
};

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, std::vector<Trained> weights) {
  if (config.type == OptimizerType::adamw) return std::make_unique<AdamW>(config, std::move(weights));
  return std::make_unique<Sgd>(config, std::move(weights));
}

}  // namespace heddle

// Serial is the judge (design, convention 2): every layout gives its judge's losses, gradients and weights.
#include <doctest/doctest.h>

#include "layers/activation.h"
#include "layers/convolution.h"
#include "layers/linear.h"
#include "layers/normalization.h"
#include "layers/pooling.h"
#include "tests/support/layouts.h"

namespace heddle {

namespace {

using test::Layout;

/// A random network on 8 x 8 images: convolutions (also strided, grouped, with bias) with norms and activations of
/// every kind, residual branches, pooling, dropout, linear layers. No bias stands before a norm: its gradient is 0 but
/// for rounding, which AdamW would divide by itself.
class RandomModel {
 public:
  RandomModel(std::uint64_t seed, bool with_norms, std::int64_t embedding)
      : draws_({seed}, Purpose::test, 0, 0), with_norms_(with_norms), embedding_(embedding) {}

  Model operator()(Construction& construction) {
    RandomStream draws = draws_;  // every rank and layout builds the same model
    Model model;
    std::int64_t channels = 3;
    std::int64_t size = 8;
    const auto blocks = 1 + draws.below(3);
    for (std::uint64_t block = 0; block < blocks; ++block) {
      const std::string name = fmt::format("block{}", block);
      const bool groups = channels % 2 == 0 && draws.below(2) == 0;
      const std::int64_t out = 2 * static_cast<std::int64_t>(2 + draws.below(3));
      const std::int64_t stride = size > 2 ? 1 + static_cast<std::int64_t>(draws.below(2)) : 1;
      model.then(name + ".conv",
                 std::make_unique<Convolution>(construction, name + ".conv",
                                               ConvolutionLayerOptions{.in = channels,
                                                                       .out = out,
                                                                       .stride = stride,
                                                                       .groups = groups ? 2 : 1,
                                                                       .bias = draws.below(2) == 0 && !with_norms_}));
      channels = out;
      size = (size - 1) / stride + 1;
      norm_or_activation(model, construction, name, channels, draws);
      if (draws.below(2) == 0) {  // a residual branch
        const int input = model.last_value();
        model.then(name + ".branch",
                   std::make_unique<Convolution>(construction, name + ".branch",
                                                 ConvolutionLayerOptions{.in = channels, .out = channels}));
        if (with_norms_)
          model.apply(
              name + ".sum",
              std::make_unique<BatchNorm>(construction, name + ".sum",
                                          BatchNormOptions{.channels = channels, .activation = NormActivation::relu}),
              {model.last_value(), input});
        else
          model.apply(name + ".sum", std::make_unique<Add>(), {model.last_value(), input});
      }
      if (size > 2 && draws.below(2) == 0) {
        const PoolOp op = draws.below(2) == 0 ? PoolOp::max : PoolOp::average;
        model.then(name + ".pool",
                   std::make_unique<Pool>(op, PoolOptions{.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}}));
        size = (size - 1) / 2 + 1;
      }
    }
    if (draws.below(2) == 0) {
      model.then("avgpool", std::make_unique<GlobalAveragePool>());
      size = 1;
    }
    if (draws.below(2) == 0) model.then("dropout", std::make_unique<Dropout>(construction, 0.3));
    model.then("fc", std::make_unique<Linear>(construction, "fc",
                                              LinearOptions{.in = channels * size * size, .out = embedding_}));
    if (draws.below(3) == 0) model.then("norm", std::make_unique<LayerNorm>(construction, "norm", embedding_));
    return model;
  }

 private:
  void norm_or_activation(Model& model, Construction& construction, const std::string& name, std::int64_t channels,
                          RandomStream& draws) const {
    const auto kind = draws.below(3);
    if (with_norms_) {
      model.then(name + ".bn",
                 std::make_unique<BatchNorm>(construction, name + ".bn",
                                             BatchNormOptions{.channels = channels,
                                                              .activation = static_cast<NormActivation>(kind),
                                                              .slope_name = name + ".slope"}));
      return;
    }
    if (kind == 0)
      model.then(name + ".prelu", std::make_unique<PRelu>(construction, name + ".prelu", channels));
    else
      model.then(name + ".act", std::make_unique<Activation>(kind == 1 ? ActivationKind::relu : ActivationKind::gelu));
  }

  RandomStream draws_;
  bool with_norms_;
  std::int64_t embedding_;
};

void check_against_judge(const Experiment& experiment, const ModelMaker& model, const Layout& layout) {
  const double tolerance = experiment.dtype() == DType::f64 ? 1e-12 : 2e-5;
  const test::Outcome judge = test::train(experiment, model, test::judge_of(layout), 3);
  const test::Outcome outcome = test::train(experiment, model, layout, 3);
  CAPTURE(layout.ranks);
  CAPTURE(layout.micro_batches);
  for (std::size_t i = 0; i < judge.losses.size(); ++i)
    CHECK(outcome.losses[i] == doctest::Approx(judge.losses[i]).epsilon(tolerance));
  CHECK(test::largest_error(outcome.gradients, judge.gradients) <= tolerance);
  CHECK(test::largest_error(outcome.weights, judge.weights) <= tolerance);
}

}  // namespace

TEST_CASE("random models over random layouts equal their serial judge") {
  RandomStream draws({2026}, Purpose::test, 0, 0);
  for (int trial = 0; trial < 24; ++trial) {
    const bool with_norms = draws.below(2) == 0;
    const DType dtype = draws.below(2) == 0 ? DType::f64 : DType::f32;
    const Layout layout{1 + static_cast<int>(draws.below(4)), 1 + static_cast<std::int64_t>(draws.below(3)),
                        draws.below(2) == 0 ? Logits::gathered : Logits::sharded};
    // Groups of unequal size; without norms also empty ones.
    const std::int64_t least = with_norms ? 2 * layout.ranks * layout.micro_batches : 1;
    const std::int64_t batch = least + static_cast<std::int64_t>(draws.below(9));
    const auto classes = static_cast<std::int64_t>(2 + draws.below(40));
    Experiment experiment = test::small_experiment(classes, batch, 6, dtype);
    experiment.seed = trial;
    if (draws.below(3) == 0) experiment.train.optimizer.type = OptimizerType::adamw;
    if (experiment.train.optimizer.type == OptimizerType::adamw) experiment.train.optimizer.learning_rate = 1e-3;
    if (draws.below(2) == 0) experiment.train.clip.norm = 0.5;
    if (draws.below(3) == 0) experiment.train.clip.value = 0.05;
    experiment.data.augmentation.shift = 1;
    CAPTURE(trial);
    check_against_judge(experiment, RandomModel(static_cast<std::uint64_t>(trial), with_norms, 6), layout);
  }
}

TEST_CASE("a network with batch norm over 1, 2 and 4 ranks, gathered and sharded, equals its judge") {
  for (const DType dtype : {DType::f64, DType::f32})
    for (const int ranks : {1, 2, 4})
      for (const Logits logits : {Logits::gathered, Logits::sharded}) {
        const Experiment experiment = test::small_experiment(33, 16, 6, dtype);
        check_against_judge(experiment, RandomModel(5, true, 6), {ranks, 2, logits});
      }
}

TEST_CASE("the same run twice gives the same bits") {
  const Experiment experiment = test::small_experiment(33, 16, 6, DType::f32);
  const Layout layout{3, 2, Logits::sharded};
  const test::Outcome first = test::train(experiment, RandomModel(7, true, 6), layout, 3);
  const test::Outcome second = test::train(experiment, RandomModel(7, true, 6), layout, 3);
  CHECK(first.losses == second.losses);
  CHECK(first.weights == second.weights);
}

TEST_CASE("running statistics are those of the whole batch, whatever its cut") {
  const Experiment experiment = test::small_experiment(10, 12, 4, DType::f64);
  // One norm right after the images: its inputs do not depend on how groups were normalised.
  const ModelMaker model = [](Construction& construction) {
    Model m;
    m.then("bn", std::make_unique<BatchNorm>(construction, "bn", BatchNormOptions{.channels = 3}));
    m.then("fc", std::make_unique<Linear>(construction, "fc", LinearOptions{.in = 192, .out = 4}));
    return m;
  };
  const test::Outcome whole = test::train(experiment, model, {1, 1, Logits::sharded}, 1);
  for (const Layout& layout : {Layout{1, 5}, Layout{3, 1}, Layout{4, 3}}) {
    const test::Outcome cut = test::train(experiment, model, layout, 1);
    for (const char* name : {"bn.running_mean", "bn.running_var"})
      for (std::size_t i = 0; i < 3; ++i)
        CHECK(cut.weights.at(name)[i] == doctest::Approx(whole.weights.at(name)[i]).epsilon(1e-12));
  }
}

}  // namespace heddle

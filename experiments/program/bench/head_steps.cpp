#include "experiments/program/bench/head_steps.h"

#include <utility>

#include "framework/ops/linear_algebra.h"
#include "framework/tensors/device.h"
#include "parallel/communicator/shard.h"

namespace heddle {

namespace {

const OptimizerConfig optimizer{.learning_rate = 0.1, .weight_decay = 5e-4};
constexpr std::int64_t dimension = HeadCase::dimension;

DType multiplied_type(const HeadCase& c, const Device& device) {
  return product_type(c.config, DType::f32, device.backend().linear_algebra().is_bf16_fast());
}

}  // namespace

std::int64_t HeadCase::state_bytes() const {
  const HeadBytes bytes = head_bytes(config, optimizer, dimension, config.classes, DType::f32);
  return bytes.weights + bytes.optimizer;
}

HeadCase fused_case(std::string name, std::int64_t classes) {
  HeadCase c{.name = std::move(name), .config = {.classes = classes, .logits = Logits::fused}};
  c.config.margin.combined.m2 = 0.5;
  return c;
}

HeadCase in_bf16(HeadCase c) {
  c.config.weights = WeightState::bf16;
  c.config.momentum = MomentumState::bf16;
  return c;
}

HeadSteps::HeadSteps(const HeadCase& c, Rank& rank)
    : case_(c),
      rank_(rank),
      construction_{rank.device, rank.key},
      head_(c.config, optimizer, dimension, rank, construction_) {}

void HeadSteps::step() {
  const int ranks = rank_.size;
  RandomStream stream(rank_.key, Purpose::test, static_cast<std::uint64_t>(step_), 0);
  std::vector<std::int64_t> labels(static_cast<std::size_t>(case_.batch));
  for (std::int64_t& label : labels)
    label = static_cast<std::int64_t>(stream.below(static_cast<std::uint64_t>(case_.config.classes)));
  head_.begin_step(step_, labels);
  for (std::int64_t i = 0; i < case_.micro_batches; ++i) {
    const IndexRange mine = shard(case_.batch, case_.micro_batches * ranks, i * ranks + rank_.index);
    HeadInput input{
        .embedding = Tensor::empty(rank_.device, {mine.size, dimension}, DType::f32),
        .labels = std::span(labels).subspan(static_cast<std::size_t>(mine.begin), static_cast<std::size_t>(mine.size)),
        .samples = {},
        .global_batch = case_.batch};
    rank_.device.backend().training().fill_normal(
        input.embedding,
        {.key = rank_.key, .purpose = Purpose::test, .step = static_cast<std::uint32_t>(step_), .layer = 1},
        mine.begin * dimension, 0, 1);
    for (int r = 0; r < ranks; ++r)
      input.samples.push_back(shard(case_.batch, case_.micro_batches * ranks, i * ranks + r));
    (void)head_.forward_backward(input);
  }
  head_.update({.step = step_, .learning_rate = 0.1});
  ++step_;
}

std::optional<double> peer_step(const BenchSettings& settings, const HeadCase& c, int ranks, std::string_view device) {
  if (c.config.samples() && c.config.sample.unsampled != HeadConfig().sample.unsampled) return std::nullopt;
  const bool narrow = c.config.weights == WeightState::bf16 && c.config.product_type != ProductType::f32;
  return peer_seconds(
      settings, {"head", fmt::format("{}", c.config.classes), fmt::format("{}", dimension), fmt::format("{}", c.batch),
                 fmt::format("{}", c.micro_batches), fmt::format("{}", c.config.samples() ? c.config.sample.rate : 1),
                 narrow ? "bf16" : "f32", fmt::format("{}", ranks), std::string(device)});
}

double tile_rate(const HeadCase& c, std::int64_t tile, Rank& rank) {
  constexpr double budget = 1;  // seconds
  const std::int64_t rows = c.batch / c.micro_batches;
  const DType type = multiplied_type(c, rank.device);
  const Tensor x = Tensor::full(rank.device, {rows, dimension}, type, 0.01);
  const Tensor w = Tensor::full(rank.device, {tile, dimension}, type, 0.01);
  const Tensor gradient = Tensor::full(rank.device, {rows, tile}, type, 0.01);
  Tensor logits = Tensor::empty(rank.device, {rows, tile}, DType::f32);
  Tensor dx = Tensor::zeros(rank.device, {rows, dimension}, DType::f32);
  Tensor dw = Tensor::empty(rank.device, {tile, dimension}, DType::f32);
  constexpr int together = 8;  // so that a GPU is not waited for after each
  const auto rounds_together = [&] {
    for (int i = 0; i < together; ++i) {
      gemm(x, false, w, true, 1, 0, logits);
      gemm(gradient, false, w, false, 1, 1, dx);
      gemm(gradient, true, x, false, 1, 0, dw);
    }
    rank.device.backend().settle();
  };
  rounds_together();
  const double begin = rank.clock.now();
  int rounds = 0;
  for (; rank.clock.now() - begin < budget; rounds += together) rounds_together();
  return rounds * 3 * 2.0 * static_cast<double>(rows * tile * dimension) / (rank.clock.now() - begin);
}

}  // namespace heddle

// The large-class head: steps of two ranks with one thread each, at the classes, batch and dimension where PyTorch's
// PartialFC is usually measured. The limit is the rate of oneDNN's matrix products on one class tile, on both ranks at
// once, for a second before each step: a machine's clock is not the same a minute later. A step's rate counts the
// products that the head's ways need at least: four where nothing is kept between the phases, three with a stash.
#include "layers/head/head.h"

#include <algorithm>

#include <fmt/format.h>

#include "experiments/bench/bench.h"
#include "experiments/bench/machine.h"
#include "experiments/median.h"
#include "framework/describe.h"
#include "framework/device.h"
#include "framework/ops/linear.h"
#include "parallel/world.h"

namespace heddle {

namespace {

constexpr int ranks = 2;
constexpr std::int64_t dimension = 512;
constexpr double giga = 1e9;
const OptimizerConfig optimizer{.learning_rate = 0.1, .weight_decay = 5e-4};

struct HeadCase {
  std::string name;
  HeadConfig config;
  std::int64_t batch = 256;
  std::int64_t micro_batches = 1;
  int steps = 3;

  int products() const { return Head::products(config, false); }

  /// Classes that take part in a step.
  double columns() const { return static_cast<double>(config.classes) * (config.samples() ? config.sample.rate : 1); }
  double flops() const { return products() * 2.0 * columns() * static_cast<double>(batch * dimension); }
  /// What both ranks keep between steps.
  std::int64_t state_bytes() const {
    const HeadBytes bytes = Head::bytes(config, optimizer, dimension, config.classes, DType::f32);
    return bytes.weights + bytes.optimizer;
  }
};

/// Medians over the steps.
struct Measured {
  double seconds = 0;
  double tile_rate = 0;  // floating-point operations a second
  double share = 0;      // of a step's rate in that before it
  std::int64_t peak_bytes = 0;
};

/// A head and embeddings that are drawn anew for every step.
class HeadSteps {
 public:
  HeadSteps(const HeadCase& c, Rank& rank)
      : case_(c),
        rank_(rank),
        construction_{rank.device, rank.key},
        head_(c.config, optimizer, dimension, rank, construction_) {}

  void step() {
    RandomStream stream(rank_.key, Purpose::test, static_cast<std::uint64_t>(step_), 0);
    std::vector<std::int64_t> labels(static_cast<std::size_t>(case_.batch));
    for (std::int64_t& label : labels)
      label = static_cast<std::int64_t>(stream.below(static_cast<std::uint64_t>(case_.config.classes)));
    head_.begin_step(step_, labels);
    for (std::int64_t i = 0; i < case_.micro_batches; ++i) {
      const ShardRange mine = shard(case_.batch, case_.micro_batches * ranks, i * ranks + rank_.index);
      HeadInput input{.embedding = Tensor::empty(rank_.device, {mine.size, dimension}, DType::f32),
                      .labels = std::span(labels).subspan(static_cast<std::size_t>(mine.begin),
                                                          static_cast<std::size_t>(mine.size)),
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

 private:
  const HeadCase& case_;
  Rank& rank_;
  Construction construction_;
  Head head_;
  std::int64_t step_ = 0;
};

DType multiplied_type(const HeadCase& c, const Device& device) {
  return product_type(c.config, DType::f32, device.backend().linear_algebra().is_bf16_fast());
}

/// Floating-point operations a second of the three products of one class tile on this rank, for a second, in the type
/// that the head multiplies in.
double tile_rate(const HeadCase& c, Rank& rank) {
  constexpr double budget = 1;  // seconds
  constexpr std::int64_t tile = 1024;
  const std::int64_t rows = c.batch / c.micro_batches;
  const DType type = multiplied_type(c, rank.device);
  const Tensor x = Tensor::full(rank.device, {rows, dimension}, type, 0.01);
  const Tensor w = Tensor::full(rank.device, {tile, dimension}, type, 0.01);
  const Tensor gradient = Tensor::full(rank.device, {rows, tile}, type, 0.01);
  Tensor logits = Tensor::empty(rank.device, {rows, tile}, DType::f32);
  Tensor dx = Tensor::zeros(rank.device, {rows, dimension}, DType::f32);
  Tensor dw = Tensor::empty(rank.device, {tile, dimension}, DType::f32);
  const double begin = rank.clock.now();
  int rounds = 0;
  for (; rank.clock.now() - begin < budget; ++rounds) {
    gemm(x, false, w, true, 1, 0, logits);
    gemm(gradient, false, w, false, 1, 1, dx);
    gemm(gradient, true, x, false, 1, 0, dw);
  }
  return rounds * 3 * 2.0 * static_cast<double>(rows * tile * dimension) / (rank.clock.now() - begin);
}

Measured measure(const HeadCase& c) {
  Measured measured;
  run_ranks({.mesh = Mesh(ranks), .threads = 1}, [&](Rank& rank) {
    HeadSteps head(c, rank);
    head.step();
    (void)tile_rate(c, rank);
    std::vector<double> seconds;
    std::vector<double> rates;
    std::vector<double> shares;
    for (int i = 0; i < c.steps; ++i) {
      rank.world.barrier().wait();
      rates.push_back(ranks * tile_rate(c, rank));
      rank.world.barrier().wait();
      const double begin = rank.clock.now();
      head.step();
      rank.world.barrier().wait();
      seconds.push_back(rank.clock.now() - begin);
      shares.push_back(c.flops() / seconds.back() / rates.back());
    }
    if (rank.index == 0)
      measured = {median(seconds), median(rates), median(shares), rank.device.meter().peak().total()};
  });
  return measured;
}

HeadCase fused_case(std::string name, std::int64_t classes) {
  HeadCase c{.name = std::move(name), .config = {.classes = classes, .logits = Logits::fused}};
  c.config.margin.m2 = 0.5;
  return c;
}

HeadCase in_bf16(HeadCase c) {
  c.config.weights = WeightState::bf16;
  c.config.momentum = MomentumState::bf16;
  return c;
}

HeadCase sampled(HeadCase c, double rate) {
  c.config.sample.rate = rate;
  return c;
}

HeadCase stashed(HeadCase c) {
  c.config.stash = true;
  return c;
}

/// Time over the number of classes.
void add_sizes(std::vector<HeadCase>& all) {
  constexpr double million = 1e6;
  for (const double millions : {0.5, 2.0, 4.0}) {
    all.push_back(fused_case(fmt::format("fused, exact, f32, {}M classes, batch 256", millions),
                             static_cast<std::int64_t>(millions * million)));
  }
  for (const double millions : {2.0, 5.0, 10.0}) {
    all.push_back(in_bf16(fused_case(fmt::format("fused, exact, bf16, {}M classes, batch 256", millions),
                                     static_cast<std::int64_t>(millions * million))));
  }
}

std::vector<HeadCase> cases() {
  constexpr std::int64_t million = 1'000'000;
  std::vector<HeadCase> all;
  all.push_back(fused_case("fused, exact, f32, 1M classes, batch 256", million));
  all.push_back(stashed(fused_case("stash, exact, f32, 1M classes, batch 256", million)));
  all.push_back(sampled(fused_case("fused, rate 0.1, f32, 1M classes, batch 256", million), 0.1));
  all.push_back(sampled(stashed(fused_case("stash, rate 0.1, f32, 1M classes, batch 256", million)), 0.1));
  for (const Unsampled unsampled : {Unsampled::frozen, Unsampled::dense, Unsampled::lazy}) {
    all.push_back(sampled(
        fused_case(fmt::format("fused, rate 0.1, the others {}, f32, 0.25M classes", name_of(unsampled)), million / 4),
        0.1));
    all.back().config.sample.unsampled = unsampled;
  }
  all.push_back(fused_case("sharded, exact, f32, 1M classes, batch 256", million));
  all.back().config.logits = Logits::sharded;
  all.push_back(in_bf16(fused_case("fused, exact, bf16, 1M classes, batch 256", million)));
  all.push_back(in_bf16(fused_case("fused, exact, bf16 multiplied in f32, 1M classes, batch 256", million)));
  all.back().config.product_type = ProductType::f32;
  add_sizes(all);
  all.push_back(sampled(fused_case("fused, rate 0.3, f32, 2M classes, 8 x 256", 2 * million), 0.3));
  all.back().batch = 2048;
  all.back().micro_batches = 8;
  return all;
}

}  // namespace

std::vector<BenchRow> bench_head(const BenchSettings& settings) {
  std::vector<BenchRow> rows;
  const auto add = [&](BenchRow row) {
    settings.on_row(row);
    rows.push_back(std::move(row));
  };
  for (const HeadCase& c : cases()) {
    // Beside the state: a tenth of it, at most, for what a step works with.
    const double needed = 1.1 * static_cast<double>(c.state_bytes()) / giga;
    if (const double available = static_cast<double>(available_memory()) / giga; needed > available) {
      add({.name = c.name + ": left out",
           .value = needed,
           .unit = "GB",
           .limit = available,
           .share = needed / available});
      continue;
    }
    const Measured measured = measure(c);
    add({.name = c.name, .value = measured.seconds, .unit = "s"});
    add({.name = fmt::format("  its {} products", c.products()),
         .value = c.flops() / measured.seconds / giga,
         .unit = "GFLOP/s",
         .limit = measured.tile_rate / giga,
         .share = measured.share});
    add({.name = "  largest memory of a rank", .value = static_cast<double>(measured.peak_bytes) / giga, .unit = "GB"});
    if (c.config.logits != Logits::fused || c.config.stash) continue;
    constexpr auto size = static_cast<double>(sizeof(float));
    add({.name = "  logits of its classes of a micro-batch, never held",
         .value = size * c.columns() * static_cast<double>(c.batch / c.micro_batches) / ranks / giga,
         .unit = "GB"});
  }
  return rows;
}

}  // namespace heddle

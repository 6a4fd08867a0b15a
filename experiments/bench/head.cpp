// The large-class head: steps of two ranks with one thread each, at the classes, batch and dimension where PyTorch's
// PartialFC is usually measured. The limit is the rate of oneDNN's matrix products on one class tile, on both ranks at
// once in the same run; a step's rate counts the products that the head's ways need at least: four where nothing is
// kept between the phases, three with a stash.
#include "layers/head/head.h"

#include <algorithm>

#include <fmt/format.h>

#include "experiments/bench/bench.h"
#include "experiments/bench/machine.h"
#include "framework/describe.h"
#include "framework/device.h"
#include "framework/ops/linear.h"
#include "parallel/world.h"

namespace heddle {

namespace {

constexpr int ranks = 2;
constexpr std::int64_t dimension = 512;

struct HeadCase {
  std::string name;
  HeadConfig config;
  std::int64_t batch = 256;
  std::int64_t micro_batches = 1;
  int products = 4;
};

struct Measured {
  double seconds = 0;
  std::int64_t peak_bytes = 0;
};

WorldOptions two_ranks() {
  return {.mesh = Mesh(ranks), .threads = 1};
}

/// A head and embeddings that are drawn anew for every step.
class HeadSteps {
 public:
  HeadSteps(const HeadCase& c, Rank& rank)
      : case_(c),
        rank_(rank),
        construction_{rank.device, rank.key},
        head_(c.config, {.learning_rate = 0.1, .weight_decay = 5e-4}, dimension, rank, construction_) {}

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
                      .rows = {},
                      .first_sample = mine.begin,
                      .global_batch = case_.batch};
      rank_.device.backend().training().fill_normal(
          input.embedding,
          {.key = rank_.key, .purpose = Purpose::test, .step = static_cast<std::uint32_t>(step_), .layer = 1},
          mine.begin * dimension, 0, 1);
      for (int r = 0; r < ranks; ++r)
        input.rows.push_back(shard(case_.batch, case_.micro_batches * ranks, i * ranks + r).size);
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

Measured measure(const HeadCase& c) {
  constexpr int steps = 3;
  Measured measured;
  run_ranks(two_ranks(), [&](Rank& rank) {
    HeadSteps head(c, rank);
    head.step();
    std::vector<double> seconds;
    for (int i = 0; i < steps; ++i) {
      rank.world.barrier().wait();
      const double begin = rank.clock.now();
      head.step();
      rank.world.barrier().wait();
      seconds.push_back(rank.clock.now() - begin);
    }
    std::sort(seconds.begin(), seconds.end());
    if (rank.index == 0) measured = {seconds[steps / 2], rank.device.meter().peak().total()};
  });
  return measured;
}

/// Floating-point operations a second of the three products of one class tile, on all ranks at once.
double tile_rate(std::int64_t rows) {
  constexpr std::int64_t tile = 1024;
  double rate = 0;
  run_ranks(two_ranks(), [&](Rank& rank) {
    const Tensor x = Tensor::full(rank.device, {rows, dimension}, DType::f32, 0.01);
    const Tensor w = Tensor::full(rank.device, {tile, dimension}, DType::f32, 0.01);
    Tensor logits = Tensor::empty(rank.device, {rows, tile}, DType::f32);
    Tensor dx = Tensor::zeros_like(x);
    Tensor dw = Tensor::empty_like(w);
    rank.world.barrier().wait();
    const double seconds = shortest_seconds([&] {
      gemm(x, false, w, true, 1, 0, logits);
      gemm(logits, false, w, false, 1, 1, dx);
      gemm(logits, true, x, false, 1, 0, dw);
    });
    rank.world.barrier().wait();
    if (rank.index == 0) rate = ranks * 3 * 2.0 * static_cast<double>(rows * tile * dimension) / seconds;
  });
  return rate;
}

HeadCase fused_case(std::string name, std::int64_t classes) {
  HeadCase c{.name = std::move(name), .config = {.classes = classes, .logits = Logits::fused}};
  c.config.margin.m2 = 0.5;
  return c;
}

std::vector<HeadCase> cases() {
  constexpr std::int64_t million = 1'000'000;
  std::vector<HeadCase> all;
  all.push_back(fused_case("fused, exact, f32, 1M classes, batch 256", million));
  all.push_back(fused_case("stash, exact, f32, 1M classes, batch 256", million));
  all.back().config.stash = true;
  all.back().products = 3;
  all.push_back(fused_case("fused, rate 0.1, f32, 1M classes, batch 256", million));
  all.back().config.sample.rate = 0.1;
  for (const Unsampled unsampled : {Unsampled::frozen, Unsampled::dense, Unsampled::lazy}) {
    all.push_back(
        fused_case(fmt::format("fused, rate 0.1, the others {}, f32, 0.25M classes", name_of(unsampled)), million / 4));
    all.back().config.sample = {.rate = 0.1, .unsampled = unsampled};
  }
  all.push_back(fused_case("sharded, exact, f32, 1M classes, batch 256", million));
  all.back().config.logits = Logits::sharded;
  all.push_back(fused_case("fused, exact, bf16, 1M classes, batch 256", million));
  all.back().config.weights = WeightState::bf16;
  all.back().config.momentum = MomentumState::bf16;
  for (const std::int64_t half_millions : {1, 4})
    all.push_back(
        fused_case(fmt::format("fused, exact, f32, {:.1f}M classes, batch 256", static_cast<double>(half_millions) / 2),
                   half_millions * million / 2));
  all.push_back(fused_case("fused, rate 0.3, f32, 2M classes, 8 x 256", 2 * million));
  all.back().config.sample.rate = 0.3;
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
  const double limit = tile_rate(256);
  for (const HeadCase& c : cases()) {
    const Measured measured = measure(c);
    const double taking_part = static_cast<double>(c.config.classes) * (c.config.samples() ? c.config.sample.rate : 1);
    const double flops = c.products * 2.0 * taking_part * static_cast<double>(c.batch * dimension);
    constexpr double giga = 1e9;
    add({.name = c.name, .value = measured.seconds, .unit = "s"});
    add({.name = fmt::format("  its {} products", c.products),
         .value = flops / measured.seconds / giga,
         .unit = "GFLOP/s",
         .limit = limit / giga,
         .share = flops / measured.seconds / limit});
    add({.name = "  largest memory of a rank", .value = static_cast<double>(measured.peak_bytes) / giga, .unit = "GB"});
    constexpr auto size = static_cast<double>(sizeof(float));
    add({.name = "  logits of its classes, which it never holds",
         .value = size * static_cast<double>(c.batch * c.config.classes) / ranks / giga,
         .unit = "GB"});
  }
  return rows;
}

}  // namespace heddle

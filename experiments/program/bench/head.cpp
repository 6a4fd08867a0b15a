// The large-class head: steps of two ranks with one thread each, at the batch and dimension where PyTorch's PartialFC
// is usually measured, with 100,000 classes or, in the long benchmark, with the millions of such measurements. The
// limit is the rate of the backend's matrix products on one class tile, on both ranks at once, measured for one second
// before each step because a machine's clock changes within a minute. The rate of a step counts the products that the
// head needs at least: four if nothing is kept between the phases, three with a stash. Below it is the rate of these
// products themselves, over the time that rank 0 spends in them, without packing embeddings for all tiles.
#include <fmt/format.h>

#include "experiments/program/bench/bench.h"
#include "experiments/program/bench/head_steps.h"
#include "experiments/program/bench/machine.h"
#include "experiments/training/measurements/median.h"
#include "framework/description/describe.h"
#include "framework/tensors/device.h"
#include "parallel/world.h"

namespace heddle {

namespace {

constexpr int head_ranks = 2;
constexpr std::int64_t cpu_tile = 1024;  // as the head chooses for such embeddings

/// Medians over the steps.
struct Measured {
  double seconds = 0;
  double tile_rate = 0;      // floating-point operations per second
  double share = 0;          // of a step's rate in that before it
  double product_rate = 0;   // of the products alone, while the step computes them
  double product_share = 0;  // of that in the tile's rate
  std::int64_t peak_bytes = 0;
};

Measured measure(const HeadCase& c) {
  Measured measured;
  run_ranks({.mesh = Mesh(head_ranks), .backend_options = {.threads = 1}}, [&](Rank& rank) {
    HeadSteps head(c, rank);
    head.step();
    (void)tile_rate(c, cpu_tile, rank);
    std::vector<double> seconds;
    std::vector<double> rates;
    std::vector<double> shares;
    std::vector<double> product_rates;
    std::vector<double> product_shares;
    const LinearAlgebraKernels& products = rank.device.backend().linear_algebra();
    for (int i = 0; i < c.steps; ++i) {
      rank.world.barrier().wait();
      rates.push_back(head_ranks * tile_rate(c, cpu_tile, rank));
      rank.world.barrier().wait();
      const double products_before = products.product_seconds().value();
      const double begin = rank.clock.now();
      head.step();
      product_rates.push_back(c.flops() / (products.product_seconds().value() - products_before));
      product_shares.push_back(product_rates.back() / rates.back());
      rank.world.barrier().wait();
      seconds.push_back(rank.clock.now() - begin);
      shares.push_back(c.flops() / seconds.back() / rates.back());
    }
    if (rank.index == 0)
      measured = {median(seconds),       median(rates),          median(shares),
                  median(product_rates), median(product_shares), rank.device.meter().peak().total()};
  });
  return measured;
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

/// The cases of the first table: every kind of head at a tenth of the size.
std::vector<HeadCase> short_cases() {
  constexpr std::int64_t classes = 100'000;
  std::vector<HeadCase> all;
  all.push_back(fused_case("fused, exact, f32, 0.1M classes, batch 256", classes));
  all.push_back(stashed(fused_case("stash, exact, f32, 0.1M classes, batch 256", classes)));
  all.push_back(fused_case("sharded, exact, f32, 0.1M classes, batch 256", classes));
  all.back().config.logits = Logits::sharded;
  all.push_back(sampled(fused_case("fused, rate 0.1, f32, 0.1M classes, batch 256", classes), 0.1));
  all.push_back(in_bf16(fused_case("fused, exact, bf16, 0.1M classes, batch 256", classes)));
  all.push_back(stashed(in_bf16(fused_case("stash, exact, bf16, 0.1M classes, batch 256", classes))));
  all.push_back(sampled(fused_case("fused, rate 0.3, f32, 0.1M classes, 8 x 256", classes), 0.3));
  all.back().batch = 2048;
  all.back().micro_batches = 8;
  return all;
}

std::vector<HeadCase> long_cases() {
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
  all.push_back(stashed(in_bf16(fused_case("stash, exact, bf16, 1M classes, batch 256", million))));
  all.push_back(sampled(stashed(in_bf16(fused_case("stash, rate 0.1, bf16, 1M classes, batch 256", million))), 0.1));
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
  BenchRows rows(settings);
  settings.on_progress(fmt::format("{} ranks with one thread each, {} features{}", head_ranks, HeadCase::dimension,
                                   settings.is_long ? "" : "; 0.25M to 10M classes are measured with --long"));
  for (const HeadCase& c : settings.is_long ? long_cases() : short_cases()) {
    // At most a tenth of the state comes on top for the workspace of a step.
    const double needed = 1.1 * static_cast<double>(c.state_bytes()) / giga;
    if (const double available = static_cast<double>(available_memory()) / giga; needed > available) {
      rows.add({.name = c.name + ": left out", .value = needed, .unit = "GB", .limit = available});
      continue;
    }
    settings.on_progress(fmt::format("{}: {} steps ...", c.name, c.steps));
    const Measured measured = measure(c);
    rows.add(
        {.name = c.name, .value = measured.seconds, .unit = "s", .peer = peer_step(settings, c, head_ranks, "cpu")});
    rows.add({.name = fmt::format("  its {} products", c.products()),
              .value = c.flops() / measured.seconds / giga,
              .unit = "GFLOP/s",
              .limit = measured.tile_rate / giga,
              .share = measured.share});
    rows.add({.name = "  while it multiplies",
              .value = measured.product_rate / giga,
              .unit = "GFLOP/s",
              .limit = measured.tile_rate / giga,
              .share = measured.product_share});
    rows.add(
        {.name = "  largest memory of a rank", .value = static_cast<double>(measured.peak_bytes) / giga, .unit = "GB"});
    if (c.config.logits != Logits::fused || c.config.stash) continue;
    constexpr auto size = static_cast<double>(sizeof(float));
    rows.add({.name = "  logits of its classes of a micro-batch, never held",
              .value = size * c.columns() * static_cast<double>(c.batch / c.micro_batches) / head_ranks / giga,
              .unit = "GB"});
  }
  return rows.take();
}

}  // namespace heddle

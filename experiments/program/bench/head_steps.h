// The large-class head alone, trained with embeddings that are drawn anew for every step: for the benchmarks that time
// it beside the products that it is made of.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/program/bench/bench.h"
#include "layers/head/head.h"
#include "layers/head/head_costs.h"
#include "parallel/rank.h"

namespace heddle {

struct HeadCase {
  /// Where PyTorch's PartialFC is usually measured.
  static constexpr std::int64_t dimension = 512;

  std::string name;
  HeadConfig config;
  std::int64_t batch = 256;
  std::int64_t micro_batches = 1;
  int steps = 3;

  /// The products that a step needs at least: four if nothing is kept between the phases, three with a stash.
  int products() const { return head_products(config, false); }
  /// The classes that take part in a step.
  double columns() const { return static_cast<double>(config.classes) * (config.samples() ? config.sample.rate : 1); }
  /// The floating-point operations of the products in one step, on all ranks.
  double flops() const { return products() * 2.0 * columns() * static_cast<double>(batch * dimension); }
  /// The bytes that all ranks keep between steps.
  std::int64_t state_bytes() const;
};

/// The exact head with fused logits and ArcFace's margin.
HeadCase fused_case(std::string name, std::int64_t classes);
/// With weights and momentum in bf16.
HeadCase in_bf16(HeadCase c);

/// One rank's head.
class HeadSteps {
 public:
  HeadSteps(const HeadCase& c, Rank& rank);
  void step();

 private:
  const HeadCase& case_;
  Rank& rank_;
  Construction construction_;
  Head head_;
  std::int64_t step_ = 0;
};

/// The seconds of the same step of InsightFace's PartialFC on so many ranks of `cpu` or `cuda`, if PyTorch was asked
/// for. PartialFC has no other way to treat the classes that are not sampled.
std::optional<double> peer_step(const BenchSettings& settings, const HeadCase& c, int ranks, std::string_view device);

/// The rate of the three products of a class tile on this rank, in floating-point operations per second, measured for
/// one second in the type in which the head multiplies.
double tile_rate(const HeadCase& c, std::int64_t tile, Rank& rank);

}  // namespace heddle

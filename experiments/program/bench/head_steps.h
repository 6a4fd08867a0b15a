// The large-class head alone, trained with embeddings that are drawn anew for every step: for the benchmarks that time
// it beside the products that it is made of.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "layers/head/head.h"
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

  /// That a step needs at least: four where nothing is kept between the phases, three with a stash.
  int products() const { return Head::products(config, false); }
  /// Classes that take part in a step.
  double columns() const { return static_cast<double>(config.classes) * (config.samples() ? config.sample.rate : 1); }
  /// Floating-point operations of a step's products, on all ranks.
  double flops() const { return products() * 2.0 * columns() * static_cast<double>(batch * dimension); }
  /// What all ranks keep between steps.
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

/// Floating-point operations a second of the three products of one class tile of so many classes on this rank, for a
/// second, in the type that the head multiplies in.
double tile_rate(const HeadCase& c, std::int64_t tile, Rank& rank);

}  // namespace heddle

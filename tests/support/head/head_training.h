// Heads trained by themselves, without a backbone: embeddings and labels are drawn.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "layers/head/head.h"
#include "tests/support/compare/difference.h"
#include "tests/support/devices.h"

namespace heddle::test {

struct Training {
  HeadConfig config;
  OptimizerConfig optimizer{.learning_rate = 0.3, .weight_decay = 0.01};
  std::int64_t batch = 7;
  std::int64_t dimension = 6;
  std::int64_t micro_batches = 3;
  std::int64_t steps = 3;
  double clip_norm = 0.05;
  DType dtype = DType::f64;
  std::uint64_t seed = 5;
  std::string backend = tested_backend();
  bool has_weights = false;  // of samples; every fourth weight is 0

  std::vector<std::int64_t> labels(std::int64_t step) const {
    RandomStream stream({seed}, Purpose::test, static_cast<std::uint64_t>(step), 0);
    std::vector<std::int64_t> all;
    for (std::int64_t i = 0; i < batch; ++i)
      all.push_back(static_cast<std::int64_t>(stream.below(static_cast<std::uint64_t>(config.classes))));
    return all;
  }
  Values weights(std::int64_t step) const {
    if (!has_weights) return {};
    Values all = normal_values(batch, seed + 200 + static_cast<std::uint64_t>(step));
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = i % 4 == 3 ? 0 : all[i] * all[i];
    return all;
  }
  Values embeddings(std::int64_t step) const {
    return normal_values(batch * dimension, seed + 100 + static_cast<std::uint64_t>(step));
  }
};

struct Learned {
  Values losses;
  std::vector<bool> has_loss;
  Values norms;
  Values embedding_gradients;  // over all steps
  Values weights;
  Values momentum;
  Values square;  // adamw only
  Values biases;
  std::vector<std::int64_t> sent;
  std::vector<MemoryUse> peaks;
};

/// Runs steps as a trainer does: micro-batches, the global norm, the clipped update. Checks that whatever several ranks
/// hold has the same bits on all of them.
Learned train(const Training& t, const Mesh& mesh);
inline Learned train(const Training& t, int ranks) {
  return train(t, Mesh(ranks));
}
void check_alike(const Learned& a, const Learned& b, double tolerance);
/// Checks, rank by rank, that plan holds and sends the same bytes as the cpu backend, whose workspaces it counts.
void check_planned(Training t, const Mesh& mesh);

struct Way {
  Logits logits;
  bool stash = false;
};
constexpr std::array<Way, 5> every_way{
    {{Logits::gathered}, {Logits::transposed}, {Logits::sharded}, {Logits::fused}, {Logits::fused, true}}};

/// Whether a head can compute its logits in this way: a stash needs one row of weights per class.
bool fits(const HeadConfig& config, const Way& way);
/// Checks that a head trains alike, in f64 and in f32, on one rank and, in every way that fits, on each of these
/// numbers of ranks.
void check_every_way(Training t, std::initializer_list<int> ranks);

Training some_training(std::int64_t classes);

}  // namespace heddle::test

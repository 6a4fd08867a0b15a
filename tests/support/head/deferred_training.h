// Heads that sample, trained with rows that defer their steps or take them at once.
#pragma once

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include <doctest/doctest.h>

#include "layers/head/head.h"
#include "tests/support/compare/difference.h"
#include "tests/support/ranks.h"

namespace heddle::test::deferred {

/// A learning rate that changes from step to step, also upwards.
inline double rate_of(std::int64_t step, std::int64_t steps) {
  const double part = static_cast<double>(step) / static_cast<double>(steps);
  return 0.02 + 0.1 * std::abs(std::cos(5 * std::numbers::pi * part)) * (1 - part);
}

struct Case {
  HeadConfig config{.classes = 60, .logits = Logits::fused, .margin = {.scale = 8, .combined = {.m2 = 0.2}}};
  OptimizerConfig optimizer{.weight_decay = 0.002, .momentum = 0.9};
  DType dtype = DType::f64;
  std::int64_t steps = 60;
  int ranks = 1;
  std::string backend = tested_backend();
};

struct Learned {
  Values weights;
  Values momentum;
  Values biases;
  std::vector<MemoryUse> peaks;
};

constexpr std::int64_t dimension = 5;
constexpr std::int64_t batch = 4;

/// Steps of random embeddings and labels.
inline Learned train(const Case& c, Unsampled unsampled) {
  HeadConfig config = c.config;
  config.sample.unsampled = unsampled;
  Learned result;
  result.weights.resize(static_cast<std::size_t>(config.classes * dimension));
  result.momentum.resize(result.weights.size());
  result.biases.resize(static_cast<std::size_t>(config.classes));
  result.peaks.resize(static_cast<std::size_t>(c.ranks));
  run_ranks(ranks(c.ranks, c.backend), [&](Rank& rank) {
    Construction construction{rank.device, rank.key, c.dtype};
    Head head(config, c.optimizer, dimension, rank, construction);
    const IndexRange mine = shard(batch, c.ranks, rank.index);
    for (std::int64_t step = 0; step < c.steps; ++step) {
      RandomStream stream({3}, Purpose::test, static_cast<std::uint64_t>(step), 0);
      std::vector<std::int64_t> labels(batch);
      for (std::int64_t& label : labels)
        label = static_cast<std::int64_t>(stream.below(static_cast<std::uint64_t>(config.classes)));
      Values embeddings(batch * dimension);
      for (double& value : embeddings) value = stream.normal();
      head.begin_step(step, labels);
      HeadInput input;
      input.global_batch = batch;
      for (int r = 0; r < c.ranks; ++r) input.samples.push_back(shard(batch, c.ranks, r));
      input.embedding = test::tensor(
          rank.device, {mine.size, dimension},
          {embeddings.begin() + mine.begin * dimension, embeddings.begin() + mine.end() * dimension}, c.dtype);
      input.labels =
          std::span(labels).subspan(static_cast<std::size_t>(mine.begin), static_cast<std::size_t>(mine.size));
      (void)head.forward_backward(input);
      head.update({.step = step, .learning_rate = rate_of(step, c.steps), .bound = 0.05, .factor = 0.5});
    }
    result.peaks[static_cast<std::size_t>(rank.index)] = rank.device.meter().peak();
    if (!rank.device.has_data()) return;
    const auto put = [&](const Tensor& part, Values& whole) {
      if (!part.defined()) return;
      const Values values = part.to_doubles();
      std::copy(values.begin(), values.end(), whole.begin() + head.classes().begin * part.shape().back());
    };
    put(head.table().weight, result.weights);
    put(head.table().momentum, result.momentum);
    for (const StateTensor& state : head.state())
      if (state.name == "head.bias") put(state.value, result.biases);
  });
  return result;
}

inline double difference(const Learned& a, const Learned& b) {
  using test::difference;
  return std::max(
      {difference(a.weights, b.weights), difference(a.momentum, b.momentum), difference(a.biases, b.biases)});
}

}  // namespace heddle::test::deferred

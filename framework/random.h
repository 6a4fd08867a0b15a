// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
// Every draw is a pure function of (seed, purpose, step, global index), so it does not change with the number of ranks,
// stages, micro-batches or threads.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "framework/host_device.h"

namespace heddle {

struct PhiloxBlock {
  std::uint32_t word[4];
};

/// Ten rounds of Philox4x32: 128 random bits for a counter and a key.
HEDDLE_HOST_DEVICE inline PhiloxBlock philox(PhiloxBlock counter, std::uint32_t key0, std::uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53} * counter.word[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57} * counter.word[2];
    counter = {
        {static_cast<std::uint32_t>(product1 >> 32) ^ counter.word[1] ^ key0, static_cast<std::uint32_t>(product1),
         static_cast<std::uint32_t>(product0 >> 32) ^ counter.word[3] ^ key1, static_cast<std::uint32_t>(product0)}};
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return counter;
}

inline std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  const PhiloxBlock out = philox(PhiloxBlock{{counter[0], counter[1], counter[2], counter[3]}}, key[0], key[1]);
  return {out.word[0], out.word[1], out.word[2], out.word[3]};
}

/// What a draw is for; keeps the streams of one seed apart.
enum class Purpose : std::uint32_t {
  initial_weights,
  dropout,
  augmentation,
  shuffle,
  synthetic_data,
  class_sampling,
  rounding,
  evaluation_pairs,
  test,
  jitter,
};

struct RandomKey {
  std::uint64_t seed = 0;
};

/// Key words of one purpose: the seed, with the purpose folded into its upper half by a Philox call of its own.
HEDDLE_HOST_DEVICE inline PhiloxBlock purpose_key(RandomKey key, Purpose purpose) {
  return philox(PhiloxBlock{{static_cast<std::uint32_t>(purpose), 0, 0, 0}}, static_cast<std::uint32_t>(key.seed),
                static_cast<std::uint32_t>(key.seed >> 32));
}

/// In (0, 1): never 0, so that a logarithm of it is finite, and never 1. 23 bits, whose odd halves f32 still holds.
HEDDLE_HOST_DEVICE inline float uniform_from_bits(std::uint32_t bits) {
  return (static_cast<float>(bits >> 9) + 0.5F) * (1.0F / 8388608.0F);
}

/// One normal deviate from two words (Box and Muller); f64 inside, so that CPU and CUDA agree to f32 rounding.
HEDDLE_HOST_DEVICE inline double normal_from_bits(std::uint32_t a, std::uint32_t b) {
  const double radius = std::sqrt(-2.0 * std::log((static_cast<double>(a) + 0.5) / 4294967296.0));
  return radius * std::cos(6.283185307179586 * (static_cast<double>(b) / 4294967296.0));
}

/// A sequence of draws for one (seed, purpose, step, index): for host code that needs several numbers for one sample.
class RandomStream {
 public:
  RandomStream(RandomKey key, Purpose purpose, std::uint64_t step, std::uint64_t index)
      : key_(purpose_key(key, purpose)), index_(index), step_(static_cast<std::uint32_t>(step)) {}

  std::uint32_t next_u32() {
    if (used_ == 4) {
      // Index gets 64 bits, step and position in the stream 32 each: one sample draws far fewer than 2^34 words.
      block_ = philox(PhiloxBlock{{static_cast<std::uint32_t>(index_), static_cast<std::uint32_t>(index_ >> 32), step_,
                                   position_++}},
                      key_.word[0], key_.word[1]);
      used_ = 0;
    }
    return block_.word[used_++];
  }
  /// Uniform in [0, 1), 53 bits.
  double uniform() {
    const std::uint64_t high = next_u32();
    return static_cast<double>(((high << 32) | next_u32()) >> 11) * 0x1.0p-53;
  }
  double normal() {
    const std::uint32_t a = next_u32();
    return normal_from_bits(a, next_u32());
  }
  /// Uniform in [0, n), n > 0, without bias (rejection).
  std::uint64_t below(std::uint64_t n) {
    const std::uint64_t limit = n * (UINT64_MAX / n);
    for (;;) {
      const std::uint64_t high = next_u32();
      const std::uint64_t draw = (high << 32) | next_u32();
      if (draw < limit) return draw % n;
    }
  }

 private:
  PhiloxBlock key_;
  PhiloxBlock block_{};
  std::uint64_t index_;
  std::uint32_t step_;
  std::uint32_t position_ = 0;
  int used_ = 4;
};

}  // namespace heddle

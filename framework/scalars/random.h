// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
// Every draw is a pure function of (seed, purpose, step, global index), so it does not change with the number of ranks,
// stages, micro-batches or threads.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "framework/host_device.h"
#include "framework/scalars/bits.h"

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

/// The purpose of a draw. Different purposes have different streams of one seed.
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
  token_masks,
};

struct RandomKey {
  std::uint64_t seed = 0;
};

/// Key words of one purpose: the seed, with the purpose folded into its upper half by a Philox call of its own.
HEDDLE_HOST_DEVICE inline PhiloxBlock purpose_key(RandomKey key, Purpose purpose) {
  return philox(PhiloxBlock{{static_cast<std::uint32_t>(purpose), 0, 0, 0}}, static_cast<std::uint32_t>(key.seed),
                static_cast<std::uint32_t>(key.seed >> 32));
}

/// A number in (0, 1): never 0, so that its logarithm is finite, and never 1. It has 23 bits, and f32 also holds the
/// odd half that is added.
HEDDLE_HOST_DEVICE inline float uniform_from_bits(std::uint32_t bits) {
  return (static_cast<float>(bits >> 9) + 0.5F) * (1.0F / 8388608.0F);
}

namespace random_detail {

/// An integer below 2^52 as a double, without a conversion instruction, which few processors have for vectors.
HEDDLE_HOST_DEVICE inline double whole(std::uint64_t bits) {
  return double_of(0x4330000000000000U | bits) - 4503599627370496.0;
}

/// ln((a + 1/2) / 2^32) within 2^-51 of itself.
[[gnu::always_inline]] HEDDLE_HOST_DEVICE inline double log_of_share(std::uint32_t a) {
  // 2a + 1 = m 2^n with m within sqrt(1/2) .. sqrt(2).
  const std::uint64_t bits = bits_of(2.0 * whole(a) + 1.0);
  const std::uint64_t n = (bits - 0x3FE6A09E667F3BCDU) >> 52;
  const double m = double_of(bits - (n << 52));
  // ln m = 2 atanh(s); atanh(s) / s interpolated at Chebyshev's nodes in s^2.
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  double p = 0.16837659970680488;
  p = p * z + 0.18121934431215214;
  p = p * z + 0.22223434547517906;
  p = p * z + 0.2857141602110767;
  p = p * z + 0.40000000061741614;
  p = p * z + 0.6666666666655292;
  p = p * z + 2.0;
  return (whole(n) - 33.0) * 0.6931471805599453 + s * p;
}

/// cos(2 pi b / 2^32) within 2^-51.
[[gnu::always_inline]] HEDDLE_HOST_DEVICE inline double cosine_of_share(std::uint32_t b) {
  // The sine of what is left to a right angle, in right angles: within -1 .. 1, and exact.
  const std::uint32_t distance = b < 0x80000000U ? b : 0U - b;
  const double t = static_cast<double>(static_cast<std::int32_t>(0x40000000U - distance)) * 0x1p-30;
  const double z = t * t;
  double p = -6.449471237809134e-10;
  p = p * z + 5.688318064017795e-08;
  p = p * z - 3.5988107063136794e-06;
  p = p * z + 0.0001604411695631063;
  p = p * z - 0.004681754131447062;
  p = p * z + 0.07969262624568337;
  p = p * z - 0.6459640975062232;
  p = p * z + 1.5707963267948963;
  return t * p;
}

}  // namespace random_detail

/// One normal deviate from two words (Box and Muller); f64 inside, so that CPU and CUDA agree to f32 rounding. Without
/// branches or calls: loops over it vectorise.
[[gnu::always_inline]] HEDDLE_HOST_DEVICE inline double normal_from_bits(std::uint32_t a, std::uint32_t b) {
  return std::sqrt(-2.0 * random_detail::log_of_share(a)) * random_detail::cosine_of_share(b);
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

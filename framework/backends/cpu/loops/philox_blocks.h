// Sixteen consecutive blocks of Philox4x32-10 at a time, in vectors.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#ifdef __AVX2__
#include <immintrin.h>
#endif

#include "framework/scalars/random.h"

namespace heddle::cpu {

/// Word k of block i is in word[k][i].
struct PhiloxBlocks {
  static constexpr int count = 16;
  alignas(64) std::uint32_t word[4][count];
};

/// The stream of a key and of the upper words of its counters.
class PhiloxStream {
 public:
  PhiloxStream(std::uint32_t key0, std::uint32_t key1, std::uint32_t word2, std::uint32_t word3)
      : word2_(word2), word3_(word3) {
    for (Wide* const keys : round_keys_) {
      keys[0] = Wide{} + std::uint64_t{key0};
      keys[1] = Wide{} + std::uint64_t{key1};
      key0 += 0x9E3779B9;
      key1 += 0xBB67AE85;
    }
  }

  /// Blocks first .. first + 15: `philox` of each. `first` is a multiple of 16, so that they share the upper half of
  /// their numbers.
  void draw(std::uint64_t first, PhiloxBlocks& blocks) const {
    for (int i = 0; i < PhiloxBlocks::count; i += 8) {
      const std::uint64_t low = (first & 0xFFFFFFFFU) + static_cast<std::uint64_t>(i);
      const FourBlocks even = four(Wide{0, 2, 4, 6} + low, first >> 32);
      const FourBlocks odd = four(Wide{1, 3, 5, 7} + low, first >> 32);
      for (int k = 0; k < 4; ++k) {
        const Wide both = (even.word[k] & 0xFFFFFFFFU) | (odd.word[k] << 32);
        std::memcpy(&blocks.word[k][i], &both, sizeof both);
      }
    }
  }

 private:
  // A word of each block in the lower half of a lane. The upper halves have no meaning until two such vectors are
  // interleaved, the lower half of each lane first.
  using Wide = std::uint64_t __attribute__((vector_size(32)));
  static_assert(std::endian::native == std::endian::little);
  struct FourBlocks {
    Wide word[4];
  };

  /// Products of the lower halves, in full: one instruction, but one that compilers do not find.
  static Wide product(Wide a, std::uint64_t factor) {
#ifdef __AVX2__
    return reinterpret_cast<Wide>(
        _mm256_mul_epu32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(Wide{} + factor)));
#else
    return (a & 0xFFFFFFFFU) * factor;
#endif
  }

  FourBlocks four(Wide numbers, std::uint64_t high) const {
    FourBlocks c{{numbers, Wide{} + high, Wide{} + word2_, Wide{} + word3_}};
#pragma GCC unroll 10
    for (const auto& keys : round_keys_) {
      const Wide product0 = product(c.word[0], 0xD2511F53);
      const Wide product1 = product(c.word[2], 0xCD9E8D57);
      c = {{(product1 >> 32) ^ c.word[1] ^ keys[0], product1, (product0 >> 32) ^ c.word[3] ^ keys[1], product0}};
    }
    return c;
  }

  std::uint64_t word2_;
  std::uint64_t word3_;
  Wide round_keys_[10][2];
};

}  // namespace heddle::cpu

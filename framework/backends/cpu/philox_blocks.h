// Sixteen consecutive blocks of Philox4x32-10 at a time, in vectors.
#pragma once

#include <cstdint>

#ifdef __AVX2__
#include <immintrin.h>
#endif

#include "framework/random.h"

namespace heddle::cpu {

/// Word k of block i stands in word[k][i].
struct PhiloxBlocks {
  static constexpr int count = 16;
  alignas(64) std::uint32_t word[4][count];
};

namespace philox_detail {

using Wide = std::uint64_t __attribute__((vector_size(32)));
using Narrow = std::uint32_t __attribute__((vector_size(16)));

/// Products of the lower halves, in full. Compilers do not find the one instruction that does it.
inline Wide product(Wide a, std::uint64_t factor) {
#ifdef __AVX2__
  return reinterpret_cast<Wide>(
      _mm256_mul_epu32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(Wide{} + factor)));
#else
  return (a & 0xFFFFFFFFU) * factor;
#endif
}

/// Four blocks, a word of each in the lower half of a lane; upper halves hold nothing of meaning.
struct FourBlocks {
  Wide word[4];
};

inline FourBlocks ten_rounds(FourBlocks counter, std::uint32_t key0, std::uint32_t key1) {
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
    const Wide product0 = product(counter.word[0], 0xD2511F53);
    const Wide product1 = product(counter.word[2], 0xCD9E8D57);
    counter = {{(product1 >> 32) ^ counter.word[1] ^ std::uint64_t{key0}, product1,
                (product0 >> 32) ^ counter.word[3] ^ std::uint64_t{key1}, product0}};
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return counter;
}

}  // namespace philox_detail

/// Blocks first .. first + 15 of the stream that has these upper counter words and key: `philox` of each. `first` is a
/// multiple of 16, so that they share the upper half of their numbers.
inline void draw_blocks(std::uint64_t first, std::uint32_t word2, std::uint32_t word3, std::uint32_t key0,
                        std::uint32_t key1, PhiloxBlocks& blocks) {
  using namespace philox_detail;
  const Wide zero{};
  const std::uint64_t low = first & 0xFFFFFFFFU;
  for (int i = 0; i < PhiloxBlocks::count; i += 4) {
    const Wide numbers = Wide{0, 1, 2, 3} + (low + static_cast<std::uint64_t>(i));
    const FourBlocks four = ten_rounds(
        {{numbers, zero + (first >> 32), zero + std::uint64_t{word2}, zero + std::uint64_t{word3}}}, key0, key1);
    for (int k = 0; k < 4; ++k) {
      const Narrow words = __builtin_convertvector(four.word[k], Narrow);
      __builtin_memcpy(&blocks.word[k][i], &words, sizeof words);
    }
  }
}

}  // namespace heddle::cpu

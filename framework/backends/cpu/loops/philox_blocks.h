// Sixteen consecutive blocks of Philox4x32-10 at a time, in vectors.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#ifdef __AVX2__
#include <immintrin.h>
#endif

#include "framework/backends/cpu/loops/avx512.h"
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
    for (std::uint64_t* const keys : round_keys_) {
      keys[0] = key0;
      keys[1] = key1;
      key0 += 0x9E3779B9;
      key1 += 0xBB67AE85;
    }
  }

  /// Blocks first .. first + 15: `philox` of each, as a PhiloxBlocks at any address. `first` is a multiple of 16, so
  /// that they share the upper half of their numbers.
  void draw(std::uint64_t first, void* blocks) const {
#ifdef __AVX2__
    if (has_avx512) return draw_in_eight_lanes(first, blocks);
#endif
    draw_in_four_lanes(first, blocks);
  }

  // The same, in vectors of 32 bytes and, where `has_avx512`, of 64 bytes.
  void draw_in_four_lanes(std::uint64_t first, void* blocks) const {
    for (int i = 0; i < PhiloxBlocks::count; i += 8) {
      const std::uint64_t low = (first & 0xFFFFFFFFU) + static_cast<std::uint64_t>(i);
      const FourBlocks even = four(Wide{0, 2, 4, 6} + low, first >> 32);
      const FourBlocks odd = four(Wide{1, 3, 5, 7} + low, first >> 32);
      for (int k = 0; k < 4; ++k) {
        const Wide both = (even.word[k] & 0xFFFFFFFFU) | (odd.word[k] << 32);
        std::memcpy(word_of(blocks, k, i), &both, sizeof both);
      }
    }
  }

#ifdef __AVX2__
  /// With both exclusive ors of a word in one instruction.
  [[gnu::target("avx512f")]] void draw_in_eight_lanes(std::uint64_t first, void* blocks) const {
    Wider halves[2][4];
    for (std::uint64_t half = 0; half < 2; ++half) {
      Wider* const c = halves[half];
      c[0] = Wider{0, 2, 4, 6, 8, 10, 12, 14} + (first & 0xFFFFFFFFU) + half;
      c[1] = Wider{} + (first >> 32);
      c[2] = Wider{} + word2_;
      c[3] = Wider{} + word3_;
#pragma GCC unroll 10
      for (const auto& keys : round_keys_) {
        const Wider product0 = product(c[0], factor0);
        const Wider product1 = product(c[2], factor1);
        c[0] = exclusive_or(product1 >> 32, c[1], Wider{} + keys[0]);
        c[2] = exclusive_or(product0 >> 32, c[3], Wider{} + keys[1]);
        c[1] = product1;
        c[3] = product0;
      }
    }
    for (int k = 0; k < 4; ++k) {
      const Wider both = (halves[0][k] & 0xFFFFFFFFU) | (halves[1][k] << 32);
      std::memcpy(word_of(blocks, k, 0), &both, sizeof both);
    }
  }

#endif

 private:
  /// Word k of block i.
  static void* word_of(void* blocks, int k, int i) {
    return static_cast<std::byte*>(blocks) + (k * PhiloxBlocks::count + i) * static_cast<int>(sizeof(std::uint32_t));
  }

#ifdef __AVX2__
  using Wider = std::uint64_t __attribute__((vector_size(64)));
  // _mm512_mul_epu32 itself makes g++ 12 warn of an uninitialised value.
  [[gnu::target("avx512f")]] static Wider product(Wider a, std::uint64_t factor) {
    return reinterpret_cast<Wider>(
        _mm512_maskz_mul_epu32(0xFF, reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(Wider{} + factor)));
  }
  [[gnu::target("avx512f")]] static Wider exclusive_or(Wider a, Wider b, Wider c) {
    return reinterpret_cast<Wider>(_mm512_ternarylogic_epi64(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b),
                                                             reinterpret_cast<__m512i>(c), 0x96));
  }
#endif

  static constexpr std::uint64_t factor0 = 0xD2511F53;
  static constexpr std::uint64_t factor1 = 0xCD9E8D57;

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
      const Wide product0 = product(c.word[0], factor0);
      const Wide product1 = product(c.word[2], factor1);
      c = {{(product1 >> 32) ^ c.word[1] ^ keys[0], product1, (product0 >> 32) ^ c.word[3] ^ keys[1], product0}};
    }
    return c;
  }

  std::uint64_t word2_;
  std::uint64_t word3_;
  std::uint64_t round_keys_[10][2];
};

}  // namespace heddle::cpu

// A seeded shuffle of 0 .. size-1 that is never stored: each element is computed by the same few Philox calls, so that
// a resumed run finds its place among a hundred million images at once.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/scalars/random.h"

namespace heddle {

/// A Feistel network over the next even number of bits, walked until it falls below `size` (Black and Rogaway, "Ciphers
/// with arbitrary finite domains", CT-RSA 2002). Pure function of (key, purpose, number).
class Permutation {
 public:
  /// `is_walked`: whether many elements will be read. The network's rounds are then computed once, into a table of less
  /// than 64 * sqrt(size) + 64 bytes, and an element costs a few look-ups.
  Permutation(std::int64_t size, RandomKey key, Purpose purpose, std::uint64_t number = 0, bool is_walked = false);

  std::int64_t size() const { return size_; }
  /// The element at `position`, 0 <= position < size.
  std::int64_t operator[](std::int64_t position) const;

 private:
  static constexpr std::uint32_t rounds = 8;
  std::uint32_t round_value(std::uint32_t round, std::uint32_t half) const;

  std::int64_t size_;
  int half_bits_ = 1;
  PhiloxBlock key_;
  std::uint64_t number_;
  std::vector<std::uint32_t> table_;  // the outputs of every round and half
};

}  // namespace heddle

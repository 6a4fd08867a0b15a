#include "framework/permutation.h"

#include "framework/error.h"

namespace heddle {

Permutation::Permutation(std::int64_t size, RandomKey key, Purpose purpose, std::uint64_t number)
    : size_(size), key_(purpose_key(key, purpose)), number_(number) {
  if (size < 1) fail("a permutation of {} elements was asked for; at least 1 is needed", size);
  while (half_bits_ < 31 && (std::int64_t{1} << (2 * half_bits_)) < size) ++half_bits_;
}

std::int64_t Permutation::operator[](std::int64_t position) const {
  if (position < 0 || position >= size_) fail("position {} of a permutation of {} elements", position, size_);
  const std::uint32_t mask = (std::uint32_t{1} << half_bits_) - 1;
  std::uint64_t value = static_cast<std::uint64_t>(position);
  do {
    std::uint32_t left = static_cast<std::uint32_t>(value >> half_bits_);
    std::uint32_t right = static_cast<std::uint32_t>(value) & mask;
    for (std::uint32_t round = 0; round < 8; ++round) {
      const PhiloxBlock block = philox(
          PhiloxBlock{{right, round, static_cast<std::uint32_t>(number_), static_cast<std::uint32_t>(number_ >> 32)}},
          key_.word[0], key_.word[1]);
      const std::uint32_t next = left ^ (block.word[0] & mask);
      left = right;
      right = next;
    }
    value = (std::uint64_t{left} << half_bits_) | right;
  } while (value >= static_cast<std::uint64_t>(size_));
  return static_cast<std::int64_t>(value);
}

}  // namespace heddle

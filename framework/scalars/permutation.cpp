#include "framework/scalars/permutation.h"

#include "framework/error.h"

namespace heddle {

Permutation::Permutation(std::int64_t size, RandomKey key, Purpose purpose, std::uint64_t number, bool is_walked)
    : size_(size), key_(purpose_key(key, purpose)), number_(number) {
  if (size < 1) fail("a permutation of {} elements was asked for; at least 1 is needed", size);
  while (half_bits_ < 31 && (std::int64_t{1} << (2 * half_bits_)) < size) ++half_bits_;
  if (!is_walked) return;
  const std::uint32_t halves = std::uint32_t{1} << half_bits_;
  table_.reserve(std::size_t{rounds} * halves);
  for (std::uint32_t round = 0; round < rounds; ++round)
    for (std::uint32_t half = 0; half < halves; ++half) table_.push_back(round_value(round, half));
}

std::uint32_t Permutation::round_value(std::uint32_t round, std::uint32_t half) const {
  return philox(
             PhiloxBlock{{half, round, static_cast<std::uint32_t>(number_), static_cast<std::uint32_t>(number_ >> 32)}},
             key_.word[0], key_.word[1])
      .word[0];
}

std::int64_t Permutation::operator[](std::int64_t position) const {
  if (position < 0 || position >= size_) fail("position {} of a permutation of {} elements", position, size_);
  const std::uint32_t mask = (std::uint32_t{1} << half_bits_) - 1;
  std::uint64_t value = static_cast<std::uint64_t>(position);
  do {
    std::uint32_t left = static_cast<std::uint32_t>(value >> half_bits_);
    std::uint32_t right = static_cast<std::uint32_t>(value) & mask;
    for (std::uint32_t round = 0; round < rounds; ++round) {
      const std::uint32_t drawn =
          table_.empty() ? round_value(round, right) : table_[(std::size_t{round} << half_bits_) | right];
      const std::uint32_t next = left ^ (drawn & mask);
      left = right;
      right = next;
    }
    value = (std::uint64_t{left} << half_bits_) | right;
  } while (value >= static_cast<std::uint64_t>(size_));
  return static_cast<std::int64_t>(value);
}

}  // namespace heddle

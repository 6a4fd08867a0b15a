// Stochastic rounding of f32 to 16 and 8 bits: up with the probability of the fraction that is cut off, so that the
// expected result is the value itself. Steps too small for the format then still count, on average (Gupta et al., "Deep
// learning with limited numerical precision", ICML 2015). Scalar code, shared by all backends.
//
// An element uses 16 random bits. They decide exactly for bf16 and for f16's normal numbers, of which f32 holds 16 and
// 13 bits more. Elsewhere (f16's subnormals, int8) the probability is a multiple of 2^-16, and the bias at most 2^-17
// of the distance between neighbours. Finite values stay finite: those beyond the largest become the largest.
#pragma once

#include <cstdint>

#include "framework/host_device.h"
#include "framework/scalars/bits.h"
#include "framework/tensors/dtype.h"

namespace heddle {

/// The draws of one element differ between these.
enum class RoundedState : std::uint32_t { weight, momentum };

/// Where the 16 random bits of an element are. Sixteen consecutive blocks serve 128 elements: first the first words of
/// all blocks, then the second ones and so on, as vectors of blocks hold them. The lower half of a word comes before
/// the upper.
struct RoundingDraw {
  static constexpr std::int64_t group = 128;  // elements of sixteen blocks
  std::uint64_t block;
  std::uint32_t word;
  std::uint32_t shift;
};
/// The first of the sixteen blocks that hold the draws of elements 128 g .. 128 g + 127. An index of less than 2^56
/// leaves the upper bits of a block's number for the state.
HEDDLE_HOST_DEVICE inline std::uint64_t first_rounding_block(RoundedState state, std::uint64_t g) {
  return (static_cast<std::uint64_t>(state) << 60) + 16 * g;
}
HEDDLE_HOST_DEVICE inline RoundingDraw rounding_draw(RoundedState state, std::uint64_t element) {
  const auto place = static_cast<std::uint32_t>(element % RoundingDraw::group);
  return {first_rounding_block(state, element / RoundingDraw::group) + place % 32 / 2, place / 32, place % 2 * 16};
}

namespace rounding_detail {

/// floor(value) or the integer above, for 0 <= value < 2^24.
HEDDLE_HOST_DEVICE inline std::int32_t integer(float value, std::uint32_t random) {
  const auto below = static_cast<std::int32_t>(value);
  const float fraction = value - static_cast<float>(below);
  const float draw = (static_cast<float>(static_cast<std::int32_t>(random)) + 0.5F) * 0x1p-16F;
  return below + (draw < fraction ? 1 : 0);
}

}  // namespace rounding_detail

/// Bits of a bf16; random < 2^16.
[[gnu::always_inline]] HEDDLE_HOST_DEVICE inline std::uint16_t round_to_bf16(float value, std::uint32_t random) {
  const std::uint32_t word = bits_of(value);
  const std::uint32_t magnitude = word & 0x7FFFFFFFU;
  const std::uint32_t sum = magnitude + random;
  const std::uint32_t finite = sum < 0x7F7FFFFFU ? sum : 0x7F7FFFFFU;
  const std::uint32_t special = magnitude > 0x7F800000U ? 0x7FC00000U : 0x7F800000U;
  return static_cast<std::uint16_t>(((word & 0x80000000U) | (magnitude < 0x7F800000U ? finite : special)) >> 16);
}

/// Bits of an IEEE binary16; random < 2^16.
[[gnu::always_inline]] HEDDLE_HOST_DEVICE inline std::uint16_t round_to_f16(float value, std::uint32_t random) {
  const std::uint32_t word = bits_of(value);
  const std::uint32_t magnitude = word & 0x7FFFFFFFU;
  const std::uint32_t bounded = magnitude < 0x477FE000U ? magnitude : 0x477FE000U;
  // In units of the distance between neighbours, which is the same in the lowest binade and below it: there are up to
  // 2^11 of them, and 2^10 in each binade beneath.
  const std::uint32_t binade = bounded >> 23 > 113 ? bounded >> 23 : 113;
  const float units = float_of(bounded) * float_of((264 - binade) << 23);
  const auto finite = (binade - 113) * 1024 + static_cast<std::uint32_t>(rounding_detail::integer(units, random));
  // A sum and not a choice, of which compilers would make a branch: infinity follows the largest number.
  const std::uint32_t special = magnitude > 0x7F800000U ? 0x0600U : 0U;
  const std::uint32_t is_special = magnitude >= 0x7F800000U ? 1U : 0U;
  return static_cast<std::uint16_t>(((word >> 16) & 0x8000U) | ((finite + is_special) | special));
}

/// The scale of a row of 8-bit integers whose largest magnitude is this. If that is not finite, neither are the scale
/// and the values that are read back.
HEDDLE_HOST_DEVICE inline float scale_of(float largest) {
  return largest / 127.0F;
}
/// A value in units of its row's scale, within [-127, 127].
[[gnu::always_inline]] HEDDLE_HOST_DEVICE inline float in_units(float value, float scale) {
  const float units = value / (scale > 0 ? scale : 1.0F);
  const float bounded = units > -127.0F ? units : -127.0F;
  return bounded < 127.0F ? bounded : 127.0F;
}
[[gnu::always_inline]] HEDDLE_HOST_DEVICE inline std::int8_t round_to_i8(float value, float scale,
                                                                         std::uint32_t random) {
  const std::uint32_t word = bits_of(in_units(value, scale));
  const std::int32_t magnitude = rounding_detail::integer(float_of(word & 0x7FFFFFFFU), random);
  // Minus x is ~x + 1: without branches again.
  const auto sign = static_cast<std::int32_t>(word) >> 31;
  return static_cast<std::int8_t>((magnitude ^ sign) - sign);
}
/// Rounds to the nearest integer, halves to even.
[[gnu::always_inline]] HEDDLE_HOST_DEVICE inline std::int8_t nearest_i8(float value, float scale) {
  // Adding 1.5 * 2^23 rounds to an integer.
  const float shifted = in_units(value, scale) + 12582912.0F;
  return static_cast<std::int8_t>(static_cast<std::int32_t>(shifted - 12582912.0F));
}

}  // namespace heddle

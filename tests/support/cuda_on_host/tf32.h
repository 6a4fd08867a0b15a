// What tensor cores make of an f32 operand in TF32: 10 bits beside the leading one, rounded to nearest even.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

inline float to_tf32(float value) {
  if (!std::isfinite(value)) return value;
  const auto word = std::bit_cast<std::uint32_t>(value);
  return std::bit_cast<float>((word + 0xFFFU + ((word >> 13) & 1U)) & ~0x1FFFU);
}

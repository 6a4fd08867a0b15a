// The bit patterns of floating-point numbers, on host and device.
#pragma once

#include <bit>
#include <cstdint>

#include "framework/host_device.h"

namespace heddle {

HEDDLE_HOST_DEVICE inline std::uint32_t bits_of(float value) {
#ifdef __CUDA_ARCH__
  return __float_as_uint(value);
#else
  return std::bit_cast<std::uint32_t>(value);
#endif
}

HEDDLE_HOST_DEVICE inline float float_of(std::uint32_t bits) {
#ifdef __CUDA_ARCH__
  return __uint_as_float(bits);
#else
  return std::bit_cast<float>(bits);
#endif
}

HEDDLE_HOST_DEVICE inline std::uint64_t bits_of(double value) {
#ifdef __CUDA_ARCH__
  return static_cast<std::uint64_t>(__double_as_longlong(value));
#else
  return std::bit_cast<std::uint64_t>(value);
#endif
}

HEDDLE_HOST_DEVICE inline double double_of(std::uint64_t bits) {
#ifdef __CUDA_ARCH__
  return __longlong_as_double(static_cast<long long>(bits));
#else
  return std::bit_cast<double>(bits);
#endif
}

}  // namespace heddle

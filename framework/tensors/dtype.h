// Element types of tensors, the two 16-bit formats as plain structs, and dispatch from a run-time type to a C++ type.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include "framework/error.h"
#include "framework/host_device.h"

namespace heddle {

enum class DType : std::uint8_t { f64, f32, bf16, f16, i64, i32, u8, i8 };

std::string_view name_of(DType dtype);
std::size_t size_of(DType dtype);
bool is_floating(DType dtype);

/// The upper half of an f32, rounded to nearest even.
struct BFloat16 {
  BFloat16() = default;
  HEDDLE_HOST_DEVICE explicit BFloat16(float value) {
#ifdef __CUDA_ARCH__
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
#else
    const auto word = std::bit_cast<std::uint32_t>(value);
    const bool is_nan = (word & 0x7FFFFFFFU) > 0x7F800000U;
    bits = static_cast<std::uint16_t>(is_nan ? (word >> 16) | 0x40U : (word + 0x7FFFU + ((word >> 16) & 1U)) >> 16);
#endif
  }
  HEDDLE_HOST_DEVICE operator float() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }  // NOLINT
  std::uint16_t bits = 0;
};

/// IEEE binary16.
struct Float16 {
  Float16() = default;
  /// Rounded to nearest even. Without branches, so that loops over it vectorise.
  HEDDLE_HOST_DEVICE explicit Float16(float value) {
    const auto word = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t magnitude = word & 0x7FFFFFFFU;
    // In the binade of 0.5 an f32's last bit is worth 2^-24, as are those of f16's subnormals.
    const std::uint32_t small = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3F000000U;
    const std::uint32_t normal = (magnitude - 0x38000000U + 0xFFFU + ((magnitude >> 13) & 1U)) >> 13;
    const std::uint32_t large = magnitude > 0x7F800000U ? 0x7E00U : 0x7C00U;
    const std::uint32_t finite = magnitude < 0x38800000U ? small : normal;
    bits = static_cast<std::uint16_t>(((word >> 16) & 0x8000U) | (magnitude >= 0x477FF000U ? large : finite));
  }
  HEDDLE_HOST_DEVICE operator float() const {  // NOLINT(google-explicit-constructor): widening loses nothing
    const std::uint32_t magnitude = bits & 0x7FFFU;
    const std::uint32_t moved = (magnitude << 13) + (magnitude >= 0x7C00U ? 0x70000000U : 0x38000000U);
    const float small = static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24F;
    const std::uint32_t word = magnitude < 0x400U ? std::bit_cast<std::uint32_t>(small) : moved;
    return std::bit_cast<float>(word | (static_cast<std::uint32_t>(bits & 0x8000U) << 16));
  }
  std::uint16_t bits = 0;
};

template <class T>
inline constexpr DType dtype_of = [] {
  if constexpr (std::is_same_v<T, double>)
    return DType::f64;
  else if constexpr (std::is_same_v<T, float>)
    return DType::f32;
  else if constexpr (std::is_same_v<T, BFloat16>)
    return DType::bf16;
  else if constexpr (std::is_same_v<T, Float16>)
    return DType::f16;
  else if constexpr (std::is_same_v<T, std::int64_t>)
    return DType::i64;
  else if constexpr (std::is_same_v<T, std::int32_t>)
    return DType::i32;
  else if constexpr (std::is_same_v<T, std::uint8_t>)
    return DType::u8;
  else {
    static_assert(std::is_same_v<T, std::int8_t>, "no such element type");
    return DType::i8;
  }
}();

/// An element as another type. The 16-bit formats are converted by way of f32, the only type they know.
template <class To, class From>
HEDDLE_HOST_DEVICE To convert_element(From value) {
  if constexpr (std::is_same_v<To, BFloat16> || std::is_same_v<To, Float16>)
    return To(static_cast<float>(value));
  else if constexpr (std::is_same_v<From, BFloat16> || std::is_same_v<From, Float16>)
    return static_cast<To>(static_cast<float>(value));
  else
    return static_cast<To>(value);
}

/// The type that arithmetic on T is done in: f64 for f64, f32 for every narrower floating-point type.
template <class T>
using Compute = std::conditional_t<std::is_same_v<T, double>, double, float>;
/// The same at run time: the type of statistics, affine parameters and optimizer state beside elements of `dtype`.
constexpr DType compute_dtype(DType dtype) {
  return dtype == DType::f64 ? DType::f64 : DType::f32;
}

/// Calls f(T{}) with the C++ type of a floating dtype; `what` names the caller in the error for any other.
template <class F>
decltype(auto) visit_floating(DType dtype, std::string_view what, F&& f) {
  switch (dtype) {
    case DType::f64:
      return f(double{});
    case DType::f32:
      return f(float{});
    case DType::bf16:
      return f(BFloat16{});
    case DType::f16:
      return f(Float16{});
    default:
      fail<InputError>("{}: expected a floating-point type, got {}", what, name_of(dtype));
  }
}

/// Calls f(T{}) with the C++ type of any dtype.
template <class F>
decltype(auto) visit_any(DType dtype, F&& f) {
  switch (dtype) {
    case DType::i64:
      return f(std::int64_t{});
    case DType::i32:
      return f(std::int32_t{});
    case DType::u8:
      return f(std::uint8_t{});
    case DType::i8:
      return f(std::int8_t{});
    default:
      return visit_floating(dtype, "visit_any", std::forward<F>(f));
  }
}

}  // namespace heddle

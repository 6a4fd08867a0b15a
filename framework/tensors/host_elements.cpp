#include "framework/tensors/host_elements.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace heddle {

namespace {

/// The elements may lie anywhere: those of a file are not aligned.
template <class T>
T element_at(std::span<const std::byte> elements, std::size_t index) {
  T value;
  std::memcpy(&value, elements.data() + index * sizeof(T), sizeof(T));
  return value;
}

/// Whether all elements are finite. Without a branch, so that it takes no longer than to read them.
template <class T>
bool are_finite(std::span<const std::byte> elements) {
  using Bits = std::conditional_t<sizeof(T) == 2, std::uint16_t,
                                  std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>;
  const auto exponent = std::bit_cast<Bits>(convert_element<T>(std::numeric_limits<double>::infinity()));
  Bits found = 0;
  for (std::size_t i = 0; i < elements.size() / sizeof(T); ++i)
    found |= static_cast<Bits>((element_at<Bits>(elements, i) & exponent) == exponent);
  return found == 0;
}

}  // namespace

std::vector<std::byte> converted(std::span<const std::byte> elements, DType from, DType to) {
  if (from == to) return {elements.begin(), elements.end()};
  std::vector<std::byte> result;
  visit_floating(from, "converted", [&](auto source) {
    visit_floating(to, "converted", [&](auto target) {
      using From = decltype(source);
      using To = decltype(target);
      const std::size_t count = elements.size() / sizeof(From);
      result.resize(count * sizeof(To));
      for (std::size_t i = 0; i < count; ++i) {
        const auto value = convert_element<To>(element_at<From>(elements, i));
        std::memcpy(result.data() + i * sizeof(To), &value, sizeof(To));
      }
    });
  });
  return result;
}

std::optional<double> first_not_finite(std::span<const std::byte> elements, DType dtype) {
  if (!is_floating(dtype)) return {};
  std::optional<double> found;
  visit_floating(dtype, "first_not_finite", [&](auto type) {
    using T = decltype(type);
    if (are_finite<T>(elements)) return;
    for (std::size_t i = 0; i < elements.size() / sizeof(T) && !found; ++i)
      if (const auto value = convert_element<double>(element_at<T>(elements, i)); !std::isfinite(value)) found = value;
  });
  return found;
}

}  // namespace heddle

// The size of an image, a kernel or a step of one, for convolution and pooling.
#pragma once

#include <compare>
#include <cstdint>

namespace heddle {

/// Height and width.
struct Extent {
  std::int64_t height = 1;
  std::int64_t width = 1;
  auto operator<=>(const Extent&) const = default;  // NOLINT(modernize-use-nullptr): clang-tidy 14 misreads it
};

}  // namespace heddle

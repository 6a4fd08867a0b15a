// Units in which bytes are printed and read.
#pragma once

#include <array>
#include <string_view>

namespace heddle {

struct Unit {
  std::string_view name;  // "MiB", "ms"
  double size = 1;        // in bytes, seconds or plain numbers
};

/// From the smallest to the largest; each is 1024 times the one before it.
inline constexpr std::array byte_units{Unit{"B", 1}, Unit{"KiB", 0x1p10}, Unit{"MiB", 0x1p20}, Unit{"GiB", 0x1p30},
                                       Unit{"TiB", 0x1p40}};

}  // namespace heddle

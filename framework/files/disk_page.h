// What begins on a page, in memory and in its file, is written past the system's cache without a copy.
#pragma once

#include <cstddef>

namespace heddle {

/// A multiple of what file systems ask for.
inline constexpr std::size_t disk_page = 4096;
/// The bytes that are written past the cache at once, after they were collected. Less data need not begin on a page.
inline constexpr std::size_t disk_buffer = std::size_t{2} << 20;

}  // namespace heddle

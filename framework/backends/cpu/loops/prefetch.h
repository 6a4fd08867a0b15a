// Bringing memory into the cache before it is needed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace heddle::cpu {

inline void prefetch(const void* from, std::int64_t bytes) {
  constexpr std::int64_t line = 64;
  const auto* const first = static_cast<const std::byte*>(from);
  for (std::int64_t offset = 0; offset < bytes; offset += line) __builtin_prefetch(first + offset);
}

}  // namespace heddle::cpu

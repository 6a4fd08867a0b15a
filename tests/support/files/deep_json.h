// JSON that no code can recurse over.
#pragma once

#include <string>

namespace heddle::test {

/// A list of a million levels.
inline std::string deep_json() {
  constexpr std::size_t levels = 1'000'000;
  return std::string(levels, '[') + std::string(levels, ']');
}

}  // namespace heddle::test

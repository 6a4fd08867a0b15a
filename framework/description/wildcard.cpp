#include "framework/description/wildcard.h"

#include <algorithm>
#include <functional>

namespace heddle {

bool matches(std::string_view pattern, std::string_view text) {
  return matches(pattern, text, std::equal_to<>());
}

bool matches_any(std::span<const std::string> patterns, std::string_view text) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [text](const std::string& pattern) { return matches(pattern, text); });
}

}  // namespace heddle

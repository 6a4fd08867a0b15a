#include "framework/description/wildcard.h"

#include <functional>

namespace heddle {

bool matches(std::string_view pattern, std::string_view text) {
  return matches(pattern, text, std::equal_to<>());
}

}  // namespace heddle

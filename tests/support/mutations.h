// Files with errors, for readers of untrusted input.
#pragma once

#include <string>
#include <string_view>

#include "framework/scalars/random.h"

namespace heddle {

/// The text after one to four edits: a byte is changed, some are removed, repeated elsewhere, or one of `inserted`
/// comes in.
inline std::string mutated(std::string text, std::string_view inserted, RandomStream& draws) {
  for (std::uint64_t edits = 1 + draws.below(4); edits > 0 && !text.empty(); --edits) {
    const std::size_t at = draws.below(text.size());
    switch (draws.below(4)) {
      case 0:
        text[at] = static_cast<char>(draws.below(256));
        break;
      case 1:
        text.erase(at, 1 + draws.below(16));
        break;
      case 2:
        text.insert(at, text.substr(draws.below(text.size()), draws.below(24)));
        break;
      default:
        text.insert(at, 1, inserted[draws.below(inserted.size())]);
        break;
    }
  }
  return text;
}

}  // namespace heddle

// A described struct as lines of text, one for each value: `train.optimizer.lr = 0.1`. The text shows whether two
// structs are equal, and where they first differ. `experiments/config` writes the same struct as JSON, which can be
// read back.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "framework/description/describe.h"

namespace heddle {

/// All values that the struct holds, in the order of description; those of alternatives that are not chosen are left
/// out. Equal texts are equal structs.
std::string plain_text(const Describer::Body& body);

/// A value in which two structs differ: `train.optimizer.lr`, and its two values as an error shows them.
struct Change {
  std::string key;
  std::string before;
  std::string now;
};
/// The first difference of two texts that `plain_text` wrote. Top-level keys of `except` do not count.
std::optional<Change> first_change_of_plain_text(std::string_view before, std::string_view now,
                                                 std::span<const std::string_view> except = {});

}  // namespace heddle

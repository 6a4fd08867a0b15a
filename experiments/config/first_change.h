// What two effective experiments differ in, for whoever must make them alike.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace heddle {

/// `train.optimizer.lr`, and its two values as an error shows them.
struct Change {
  std::string key;
  std::string before;
  std::string now;
};
/// The first difference of two JSON objects, as `write_json` writes them. Top-level keys of `except` do not count.
/// Nothing if there is none, or if a text is no JSON object.
std::optional<Change> first_change(std::string_view before, std::string_view now,
                                   std::span<const std::string_view> except = {});

}  // namespace heddle

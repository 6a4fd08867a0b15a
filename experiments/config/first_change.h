// What two effective experiments differ in, for whoever must make them alike.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace heddle {

/// The first difference of two JSON objects, as `write_json` writes them: `train.optimizer.lr was 0.1, is 0.2`.
/// Top-level keys of `except` do not count. Empty if nothing differs, or if a text is no JSON object.
std::string first_change(std::string_view before, std::string_view now, std::span<const std::string_view> except = {});

}  // namespace heddle

// The first difference of two effective experiments, so that an error can name it.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "framework/description/plain_text.h"

namespace heddle {

/// The first difference of two JSON objects, as `write_json` writes them. Top-level keys of `except` do not count.
/// Nothing if there is none, or if a text is not a JSON object.
std::optional<Change> first_change(std::string_view before, std::string_view now,
                                   std::span<const std::string_view> except = {});

}  // namespace heddle

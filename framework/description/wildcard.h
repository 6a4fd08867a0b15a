// Patterns for names.
#pragma once

#include <string_view>

namespace heddle {

/// Whether a text is the pattern, in which each `*` stands for any text. Takes at most |pattern| * |text| steps.
bool matches(std::string_view pattern, std::string_view text);

}  // namespace heddle

// Matches names against patterns with wildcards, such as `layer1.*`.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace heddle {

/// Whether a text is the pattern, in which each `*` stands for any text and any other character for those that
/// `fits(character of the pattern, character of the text)` accepts. Takes at most |pattern| * |text| steps.
template <class Fits>
bool matches(std::string_view pattern, std::string_view text, Fits fits) {
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t after_star = std::string_view::npos;
  std::size_t star_ends = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      after_star = ++p;
      star_ends = t;
    } else if (p < pattern.size() && fits(pattern[p], text[t])) {
      ++p;
      ++t;
    } else if (after_star != std::string_view::npos) {
      // The last star takes one character more: an earlier one never needs to.
      p = after_star;
      t = ++star_ends;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

/// The same where every character but `*` stands for itself.
bool matches(std::string_view pattern, std::string_view text);
/// Whether a text is one of the patterns.
bool matches_any(std::span<const std::string> patterns, std::string_view text);

}  // namespace heddle

#include "experiments/data/files/name_pattern.h"

#include <cstddef>

#include "framework/description/printable.h"
#include "framework/error.h"

namespace heddle {
namespace {

constexpr std::string_view placeholder = "{identity}";

bool fits(char wanted, char c) {
  return wanted == '#' ? c >= '0' && c <= '9' : wanted == c;
}

/// Whether the whole text fits. After a mismatch the last star takes one character more: an earlier one never needs to.
bool fits(std::string_view pattern, std::string_view text) {
  std::size_t at = 0;
  std::size_t in_pattern = 0;
  std::size_t after_star = std::string_view::npos;
  std::size_t star_ends = 0;
  while (at < text.size()) {
    if (in_pattern < pattern.size() && pattern[in_pattern] == '*') {
      after_star = ++in_pattern;
      star_ends = at;
    } else if (in_pattern < pattern.size() && fits(pattern[in_pattern], text[at])) {
      ++in_pattern;
      ++at;
    } else if (after_star != std::string_view::npos) {
      in_pattern = after_star;
      at = ++star_ends;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', in_pattern) == std::string_view::npos;
}

}  // namespace

NamePattern::NamePattern(std::string_view text) {
  constexpr std::size_t longest_name = 255;
  const std::size_t at = text.find(placeholder);
  if (at == std::string_view::npos || text.find(placeholder, at + 1) != std::string_view::npos)
    fail<InputError>("data.pattern: expected {} once, as in \"{}_*\", got {}", placeholder, placeholder,
                     in_quotes(text));
  if (text.size() > longest_name)
    fail<InputError>("data.pattern: expected at most {} characters, which the longest name of a file has, got {}",
                     longest_name, text.size());
  before_ = text.substr(0, at);
  after_ = text.substr(at + placeholder.size());
}

std::optional<std::string_view> NamePattern::identity(std::string_view name) const {
  std::size_t begin = 0;
  while (begin < name.size() && !fits(before_, name.substr(0, begin))) ++begin;
  // A later beginning would find no end that this one does not.
  for (std::size_t end = begin + 1; end <= name.size(); ++end)
    if (fits(after_, name.substr(end))) return name.substr(begin, end - begin);
  return {};
}

}  // namespace heddle

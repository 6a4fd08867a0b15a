#include "experiments/data/files/name_pattern.h"

#include <cstddef>

#include "framework/description/printable.h"
#include "framework/description/wildcard.h"
#include "framework/error.h"

namespace heddle {
namespace {

constexpr std::string_view placeholder = "{identity}";

/// Matches wildcards, and a digit where the pattern has `#`.
bool fits(std::string_view pattern, std::string_view text) {
  return matches(pattern, text, [](char wanted, char c) { return wanted == '#' ? c >= '0' && c <= '9' : wanted == c; });
}

}  // namespace

NamePattern::NamePattern(std::string_view text) {
  constexpr std::size_t max_size = 255;
  const std::size_t at = text.find(placeholder);
  if (at == std::string_view::npos || text.find(placeholder, at + 1) != std::string_view::npos)
    fail<InputError>("data.pattern: expected {} once, as in \"{}_*\", got {}", placeholder, placeholder,
                     in_quotes(text));
  if (text.size() > max_size)
    fail<InputError>("data.pattern: expected at most {} characters, the longest name of a file, got {}", max_size,
                     text.size());
  before_ = text.substr(0, at);
  after_ = text.substr(at + placeholder.size());
}

std::optional<std::string_view> NamePattern::identity(std::string_view name) const {
  std::size_t begin = 0;
  while (begin < name.size() && !fits(before_, name.substr(0, begin))) ++begin;
  // Every end that fits after a later beginning also fits after this one, so no other beginning is tried.
  for (std::size_t end = begin + 1; end <= name.size(); ++end)
    if (fits(after_, name.substr(end))) return name.substr(begin, end - begin);
  return {};
}

}  // namespace heddle

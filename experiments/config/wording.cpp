#include "experiments/config/wording.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "experiments/config/json_text.h"
#include "framework/description/nearest.h"

namespace heddle {
namespace {

/// The member or element of `value` that a pointer's token names; null if there is none.
const Value* step(const Value& value, std::string_view token) {
  if (const Array* const array = value.get_if<Array>()) {
    std::size_t index = 0;
    const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), index);
    const bool is_index = error == std::errc() && end == token.data() + token.size();
    return is_index && index < array->size() ? &(*array)[index] : nullptr;
  }
  const Object* const object = value.get_if<Object>();
  if (object == nullptr) return nullptr;
  for (const Member& member : *object) {
    if (child_pointer("", member.key).substr(1) == token) return &member.value;
  }
  return nullptr;
}

}  // namespace

std::string child_pointer(std::string_view pointer, std::string_view key) {
  std::string result(pointer);
  result += '/';
  for (const char c : key) {
    if (c == '~') {
      result += "~0";
    } else if (c == '/') {
      result += "~1";
    } else {
      result += c;
    }
  }
  return result;
}

std::string child_pointer(std::string_view pointer, std::size_t index) {
  return fmt::format("{}/{}", pointer, index);
}

const Value* value_at(const Value& root, std::string_view pointer) {
  const Value* value = &root;
  while (!pointer.empty() && value != nullptr) {
    pointer.remove_prefix(1);
    const std::string_view token = pointer.substr(0, pointer.find('/'));
    value = step(*value, token);
    pointer.remove_prefix(token.size());
  }
  return value;
}

std::string range_words(const Range& range) {
  const bool below = std::isfinite(range.maximum);
  const bool above = std::isfinite(range.minimum);
  if (above && below && !range.excludes_minimum && !range.excludes_maximum) {
    return fmt::format(" from {} to {}", range.minimum, range.maximum);
  }
  std::string words;
  if (above) words = fmt::format(" {} {}", range.excludes_minimum ? ">" : ">=", range.minimum);
  if (above && below) words += " and";
  if (below) words += fmt::format(" {} {}", range.excludes_maximum ? "<" : "<=", range.maximum);
  return words;
}

static_assert(std::numeric_limits<long double>::digits >= std::numeric_limits<std::int64_t>::digits);

bool contains(const Range& range, long double value) {
  return (range.excludes_minimum ? value > range.minimum : value >= range.minimum) &&
         (range.excludes_maximum ? value < range.maximum : value <= range.maximum);
}

double min_length(const Range& length) {
  return std::max(0.0, length.excludes_minimum ? length.minimum + 1 : length.minimum);
}

double max_length(const Range& length) {
  return length.excludes_maximum ? length.maximum - 1 : length.maximum;
}

std::string list_words(std::string_view noun, const Range& each, const Range& length) {
  const double min = min_length(length);
  const double max = max_length(length);
  const bool is_bounded = std::isfinite(max);
  std::string count;
  if (min == max) {
    count = fmt::format("{} ", min);
  } else if (is_bounded) {
    count = min > 0 ? fmt::format("{} to {} ", min, max) : fmt::format("at most {} ", max);
  } else if (min > 0) {
    count = fmt::format("at least {} ", min);
  }
  const bool is_singular = (is_bounded ? max : min) == 1;
  return fmt::format("a list of {}{}{}{}", count, noun, is_singular ? "" : "s", range_words(each));
}

std::string one_of_words(std::span<const std::string> names) {
  std::string words;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) words += i + 1 == names.size() ? " or " : ", ";
    words += in_quotes(names[i]);
  }
  return words;
}

std::string value_words(const Value& value) {
  if (const auto* const array = value.get_if<Array>()) {
    return array->empty() ? "an empty list" : fmt::format("a list of {}", array->size());
  }
  if (value.is<Object>()) return "an object";
  if (value.is<Removed>()) return "nothing";
  if (const auto* const text = value.get_if<std::string>()) return in_quotes(*text);
  return shortened(to_line(value));
}

std::string suggestion(std::string_view name, std::span<const std::string> names) {
  // Other words for a name, which are too different from it to be found by their letters.
  constexpr std::array<std::pair<std::string_view, std::string_view>, 1> synonyms{{{"gpu", "cuda"}}};
  std::optional<std::string> best = nearest(name, names);
  for (const auto& [other, meant] : synonyms)
    if (name == other && std::find(names.begin(), names.end(), meant) != names.end()) best = meant;
  return best ? fmt::format("; did you mean {}?", in_quotes(*best)) : "";
}

std::string unknown_key_words(std::string_view key, std::span<const std::string> known) {
  const std::string near = suggestion(key, known);
  return "unknown key" + (near.empty() ? "; expected " + one_of_words(known) : near);
}

}  // namespace heddle

// JSON of files that anyone may have written, for code that recurses over its values.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace heddle {

/// More levels are refused: copying or writing such a value would take more than the stack.
inline constexpr std::size_t max_json_levels = 64;

/// Whether objects and lists nest more deeply than that. The text need not be JSON.
bool nests_too_deeply(std::string_view json);

/// Parses a text as `Json`, a type of nlohmann/json. The result is discarded if the text is not JSON or nests too
/// deeply.
template <class Json>
Json parse_untrusted_json(std::string_view text) {
  return nests_too_deeply(text) ? Json(Json::value_t::discarded) : Json::parse(text, nullptr, false);
}

/// The value as an integer from 0 to 2^53, which also a double represents; nothing for other values.
template <class Json>
std::optional<std::int64_t> count_of(const Json& value) {
  constexpr double max_count = std::int64_t{1} << 53;
  if (!value.is_number()) return std::nullopt;
  const auto number = value.template get<double>();
  if (!(number >= 0 && number <= max_count) || std::floor(number) != number) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

}  // namespace heddle

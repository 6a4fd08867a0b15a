// The wording of error messages, of `heddle help` and of the JSON schema, in one place so that they agree.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "experiments/config/value.h"
#include "framework/description/describe.h"
#include "framework/description/printable.h"

namespace heddle {

/// The number of errors of one file that are reported together.
inline constexpr std::size_t max_problems = 20;

/// ` >= 1`, ` from 0 to 1`, ` >= 0 and < 1`, or nothing.
std::string range_words(const Range& range);
/// A long double holds every double and every 64-bit integer.
bool contains(const Range& range, long double value);
/// The smallest and the largest length of a list; infinity if it has no bound.
double min_length(const Range& length);
double max_length(const Range& length);
/// `a list of 3 integers >= 1`; `noun` is the singular.
std::string list_words(std::string_view noun, const Range& each, const Range& length);
/// `"a", "b" or "c"`.
std::string one_of_words(std::span<const std::string> names);
/// A value as it appears after "got": a scalar as JSON, `a list of 3`, `an object`.
std::string value_words(const Value& value);

/// `; did you mean "batch"?`, or nothing.
std::string suggestion(std::string_view name, std::span<const std::string> names);
/// `unknown key; did you mean "batch"?`, or `unknown key; expected "a" or "b"`.
std::string unknown_key_words(std::string_view key, std::span<const std::string> known);

}  // namespace heddle

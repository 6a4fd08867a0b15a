// Expressions over a summary, in which claims name values.
//
//   variants[gathered].ranks.peak_bytes.total.max / variants[sharded].ranks.peak_bytes.total.max
//   (variants[serial].loss.last - 3.4) * 2
//   variants[replicated 512].status            compared with 'out_of_memory'
//
// A path follows keys. A list on its way maps the rest of the path over its elements; [name] takes those whose "name"
// is this (* stands for any text), [2] one by its place, from the end if negative, and from an object [key] a value
// whose key has other characters than letters, digits and _. A reduction ends a path over a list: max, min, sum, mean,
// count, max_over_mean, or spread: (max - min) / max |x|. A product, quotient, sum or difference needs single numbers.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace heddle {

/// InputError with the place in the text if it is not an expression.
void check_syntax(std::string_view expression);

/// A number or a string. InputError that names the path if there is no such value, or more than one.
nlohmann::ordered_json evaluate(std::string_view expression, const nlohmann::ordered_json& summary);

}  // namespace heddle

// JSON text to values and back. Strict (RFC 8259), and safe on hostile text: depth, size and number of values are
// bounded. The only file of the experiment reader that knows the JSON library.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "experiments/config/value.h"
#include "framework/error.h"
#include "framework/files/untrusted_json.h"

namespace heddle {

inline constexpr std::size_t max_json_bytes = std::size_t{16} << 20;
inline constexpr std::size_t max_json_values = 1'000'000;

/// The text is not JSON. The message starts with the name that parse_json was given.
class NotJson : public InputError {
 public:
  using InputError::InputError;
};

struct ParsedJson {
  Value root;
  std::size_t values = 0;
  struct Duplicate {
    std::string pointer;
    std::uint32_t order;
  };
  /// Keys that an object holds twice; `root` holds the first of them.
  std::vector<Duplicate> duplicates;
};

/// Throws NotJson with line and column, or InputError if the text passes one of the bounds above.
ParsedJson parse_json(std::string_view text, std::string_view name);

/// Indents by two spaces, with a newline at the end. Lists of scalars, and short objects in lists, stand on one line.
/// Numbers read back unchanged.
std::string to_text(const Value& value);
/// The same on one line without a newline.
std::string to_line(const Value& value);

}  // namespace heddle

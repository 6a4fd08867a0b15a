// Finds the person in the name of a file: `{identity}_*` finds 0002 in 0002_c1s1_000451_03.jpg of Market-1501, and
// `{identity}_####.*` finds Aaron_Eckhart in Aaron_Eckhart_0001.jpg.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace heddle {

/// `*` matches any characters or none, `#` matches a digit, and `{identity}` matches the person, whose name has at
/// least one character; the first and shortest match counts. This is not a regular expression, because matching one may
/// take time exponential in the length of a name; here the time is at most cubic.
class NamePattern {
 public:
  /// InputError unless `{identity}` occurs exactly once.
  explicit NamePattern(std::string_view text);

  /// The person in a name; empty if the name does not fit.
  std::optional<std::string_view> identity(std::string_view name) const;

 private:
  std::string before_;
  std::string after_;
};

}  // namespace heddle

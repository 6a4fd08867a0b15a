// Finds the identity in the name of a file: `{identity}_*` finds 0002 in 0002_c1s1_000451_03.jpg of Market-1501, and
// `{identity}_####.*` finds Aaron_Eckhart in Aaron_Eckhart_0001.jpg.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace heddle {

/// Not a regular expression, whose time may grow exponentially with a name's length: this one's grows with the cube at
/// most. `*` stands for any characters, also none; `#` for a digit; `{identity}` for the characters that are wanted,
/// one at least. The first place and the shortest identity that fit are found.
class NamePattern {
 public:
  /// InputError unless `{identity}` comes exactly once.
  explicit NamePattern(std::string_view text);

  /// Empty if the name does not fit.
  std::optional<std::string_view> identity(std::string_view name) const;

 private:
  std::string before_;
  std::string after_;
};

}  // namespace heddle

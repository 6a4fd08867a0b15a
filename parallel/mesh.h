// The ranks of a run as a grid with named axes, in the order dp, pp, tp with the tensor axis fastest: neighbours along
// tp have neighbouring numbers.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace heddle {

enum class Axis { dp, pp, tp };
inline constexpr std::array<std::string_view, 3> axis_names{"dp", "pp", "tp"};

class Mesh {
 public:
  struct Coordinates {
    int dp = 0;
    int pp = 0;
    int tp = 0;
    int operator[](Axis axis) const { return axis == Axis::dp ? dp : axis == Axis::pp ? pp : tp; }
    bool operator==(const Coordinates&) const = default;
  };

  /// InputError unless every axis has at least one rank.
  explicit Mesh(int dp = 1, int pp = 1, int tp = 1);

  int size() const { return sizes_.dp * sizes_.pp * sizes_.tp; }
  int size(Axis axis) const { return sizes_[axis]; }
  Coordinates coordinates(int rank) const;
  int rank(Coordinates at) const { return (at.dp * sizes_.pp + at.pp) * sizes_.tp + at.tp; }
  /// The lowest rank of those that differ from `rank` along this axis only: the same number for all of them.
  int first_along(Axis axis, int rank) const;
  bool operator==(const Mesh&) const = default;

 private:
  Coordinates sizes_;
};

/// `dp 2 x tp 4`; axes of one rank are left out, `1 rank` if all are.
std::string to_string(const Mesh& mesh);

}  // namespace heddle

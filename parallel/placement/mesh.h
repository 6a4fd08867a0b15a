// The ranks of a run as a grid with named axes, in the order dp, pp, tp with the tensor axis fastest: neighbours along
// tp have neighbouring numbers.
#pragma once

#include <array>
#include <initializer_list>
#include <string>
#include <vector>

#include "framework/description/enum_table.h"
#include "framework/error.h"

namespace heddle {

/// `copies` is no axis of the grid: where a pipeline has two copies of each stage, it joins the two ranks along pp that
/// have the same stages, those with the coordinates r and p - 1 - r.
enum class Axis { dp, pp, tp, copies };
template <>
inline constexpr auto enum_names<Axis> = enum_table<Axis>({
    {Axis::dp, "dp"},
    {Axis::pp, "pp"},
    {Axis::tp, "tp"},
    {Axis::copies, "copies"},
});
/// The axes of the grid.
inline constexpr std::array<Axis, 3> all_axes{Axis::dp, Axis::pp, Axis::tp};
/// The axes over which the work of a layer may be shared. Ranks along pp have different layers.
inline constexpr std::array<Axis, 2> layer_axes{Axis::dp, Axis::tp};

/// Some of the axes, visited in the order dp, pp, tp, copies. As a group of ranks, pp contains copies.
class AxisSet {
 public:
  /// The number of different sets.
  static constexpr std::size_t count = std::size_t{1} << enumerator_count<Axis>();

  constexpr AxisSet() = default;
  constexpr AxisSet(std::initializer_list<Axis> axes) {
    for (const Axis axis : axes) insert(axis);
  }
  /// The set that has this index().
  static constexpr AxisSet of_index(unsigned index) {
    AxisSet axes;
    axes.bits_ = index;
    return axes;
  }

  constexpr void insert(Axis axis) { bits_ |= 1U << static_cast<unsigned>(axis); }
  constexpr void erase(Axis axis) { bits_ &= ~(1U << static_cast<unsigned>(axis)); }
  constexpr bool contains(Axis axis) const { return (bits_ >> static_cast<unsigned>(axis) & 1U) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  /// The axes that are not among others.
  constexpr AxisSet without(AxisSet others) const { return of_index(bits_ & ~others.bits_); }
  constexpr bool operator==(const AxisSet&) const = default;
  /// 0 .. 15, different for every set: bit i stands for all_of<Axis>[i]. Sets of axes of the grid have 0 .. 7.
  constexpr unsigned index() const { return bits_; }
  template <class F>
  constexpr void for_each(F&& f) const {
    for (const Axis axis : all_of<Axis>)
      if (contains(axis)) f(axis);
  }

 private:
  unsigned bits_ = 0;
};

inline constexpr AxisSet every_axis{Axis::dp, Axis::pp, Axis::tp};
inline constexpr AxisSet every_axis_and_copies{Axis::dp, Axis::pp, Axis::tp, Axis::copies};

/// `dp x tp`, `no axis`.
std::string to_string(const AxisSet& axes);

/// One value per axis.
template <class T>
struct PerAxis {
  std::array<T, all_axes.size()> values{};
  constexpr T& operator[](Axis axis) { return values.at(static_cast<std::size_t>(axis)); }
  constexpr const T& operator[](Axis axis) const { return values.at(static_cast<std::size_t>(axis)); }
  bool operator==(const PerAxis&) const = default;
};

class Mesh {
 public:
  struct Coordinates {
    int dp = 0;
    int pp = 0;
    int tp = 0;
    int operator[](Axis axis) const {
      switch (axis) {
        case Axis::dp:
          return dp;
        case Axis::pp:
          return pp;
        case Axis::tp:
          return tp;
        case Axis::copies:
          break;
      }
      fail("a rank has no coordinate along {}", name_of(axis));
    }
    bool operator==(const Coordinates&) const = default;
  };

  /// `copies`: of each pipeline stage, 1 or 2. InputError unless every axis has at least one rank, and an even number
  /// along pp if there are two copies.
  explicit Mesh(int dp = 1, int pp = 1, int tp = 1, int copies = 1);

  int size() const { return sizes_.dp * sizes_.pp * sizes_.tp; }
  int size(Axis axis) const { return axis == Axis::copies ? copies_ : sizes_[axis]; }
  /// The axis of a placement that names none: tp, or dp if tp has one rank.
  Axis default_axis() const { return sizes_.tp > 1 ? Axis::tp : Axis::dp; }
  /// The size of a group of ranks that differ along these axes only.
  int size(AxisSet axes) const;
  Coordinates coordinates(int rank) const;
  int rank(Coordinates at) const { return (at.dp * sizes_.pp + at.pp) * sizes_.tp + at.tp; }
  /// The ranks that differ from `of_rank` along these axes only, itself included, ascending.
  std::vector<int> ranks_over(AxisSet axes, int of_rank) const;
  /// The first of them.
  int first_over(AxisSet axes, int of_rank) const;
  /// These axes, without the axes that have one rank.
  AxisSet larger_than_one(AxisSet axes) const;
  bool operator==(const Mesh&) const = default;

 private:
  Coordinates sizes_;
  int copies_;
};

/// `dp 2 x tp 4`; axes of one rank are left out, `1 rank` if all are.
std::string to_string(const Mesh& mesh);

}  // namespace heddle

#include "parallel/placement/mesh.h"

#include <algorithm>

#include "framework/error.h"

namespace heddle {

Mesh::Mesh(int dp, int pp, int tp, int copies) : sizes_{dp, pp, tp}, copies_(copies) {
  for (const Axis axis : all_axes)
    if (size(axis) < 1)
      fail<InputError>("mesh: expected at least one rank along {}, got {}", name_of(axis), size(axis));
  if (copies != 1 && (copies != 2 || pp % 2 != 0))
    fail<InputError>("mesh: expected 1 copy of each stage, or 2 with an even number of ranks along pp, got {} with {}",
                     copies, pp);
}

int Mesh::size(AxisSet axes) const {
  int product = 1;
  if (axes.contains(Axis::pp)) axes.erase(Axis::copies);
  axes.for_each([&](Axis axis) { product *= size(axis); });
  return product;
}

Mesh::Coordinates Mesh::coordinates(int rank) const {
  return {rank / (sizes_.pp * sizes_.tp), rank / sizes_.tp % sizes_.pp, rank % sizes_.tp};
}

std::vector<int> Mesh::ranks_over(AxisSet axes, int of_rank) const {
  const Coordinates here = coordinates(of_rank);
  const auto first = [&](Axis axis) { return axes.contains(axis) ? 0 : here[axis]; };
  const auto last = [&](Axis axis) { return axes.contains(axis) ? size(axis) - 1 : here[axis]; };
  const bool has_copies = axes.contains(Axis::copies) && copies_ > 1;
  const auto is_among = [&](int pp) {
    return axes.contains(Axis::pp) || pp == here.pp || (has_copies && pp == sizes_.pp - 1 - here.pp);
  };
  std::vector<int> ranks;
  for (int dp = first(Axis::dp); dp <= last(Axis::dp); ++dp)
    for (int pp = 0; pp < sizes_.pp; ++pp)
      for (int tp = first(Axis::tp); is_among(pp) && tp <= last(Axis::tp); ++tp) ranks.push_back(rank({dp, pp, tp}));
  return ranks;
}

int Mesh::first_over(AxisSet axes, int of_rank) const {
  Coordinates at = coordinates(of_rank);
  if (axes.contains(Axis::copies) && copies_ > 1) at.pp = std::min(at.pp, sizes_.pp - 1 - at.pp);
  if (axes.contains(Axis::dp)) at.dp = 0;
  if (axes.contains(Axis::pp)) at.pp = 0;
  if (axes.contains(Axis::tp)) at.tp = 0;
  return rank(at);
}

AxisSet Mesh::larger_than_one(AxisSet axes) const {
  AxisSet result;
  axes.for_each([&](Axis axis) {
    if (size(axis) > 1) result.insert(axis);
  });
  return result;
}

std::string to_string(const AxisSet& axes) {
  std::string text;
  axes.for_each([&](Axis axis) { text += fmt::format("{}{}", text.empty() ? "" : " x ", name_of(axis)); });
  return text.empty() ? "no axis" : text;
}

std::string to_string(const Mesh& mesh) {
  std::string text;
  mesh.larger_than_one(every_axis).for_each([&](Axis axis) {
    text += fmt::format("{}{} {}", text.empty() ? "" : " x ", name_of(axis), mesh.size(axis));
  });
  return text.empty() ? "1 rank" : text;
}

}  // namespace heddle

#include "parallel/placement/placement.h"

#include <algorithm>
#include <iterator>

#include "framework/error.h"

namespace heddle {

std::string to_string(const Placement& placement) {
  if (placement.value() == Spread::sharded) return fmt::format("S({})", *placement.dimension());
  if (placement.value() == Spread::partial) return "P";
  return placement.gradient() == Spread::partial ? "R/P" : "R";
}

std::string to_string(const Placements& placements, const Mesh& mesh) {
  std::string text;
  for (const Axis axis : all_axes)
    if (mesh.size(axis) > 1)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name_of(axis), to_string(placements[axis]));
  return text.empty() ? "R" : text;
}

Placements normalized(Placements placements, const Mesh& mesh) {
  for (const Axis axis : all_axes)
    if (mesh.size(axis) == 1) placements[axis] = Placement::replicate();
  return placements;
}

void check_placements(const Shape& whole, const Placements& placements, const Mesh& mesh) {
  for (const Axis axis : all_axes) {
    const Placement& placement = placements[axis];
    if (placement.value() == Spread::sharded && (*placement.dimension() < 0 || *placement.dimension() >= whole.rank()))
      fail<InputError>("placement {}: {} has no dimension {}", to_string(placements, mesh), to_string(whole),
                       *placement.dimension());
  }
}

std::vector<IndexRange> local_box(const Shape& whole, const Placements& placements, const Mesh& mesh,
                                  const Mesh::Coordinates& at) {
  const Placements where = normalized(placements, mesh);
  check_placements(whole, where, mesh);
  std::vector<IndexRange> box;
  for (const std::int64_t size : whole.dimensions()) box.push_back({0, size});
  for (const Axis axis : all_axes) {
    if (where[axis].value() != Spread::sharded) continue;
    IndexRange& range = box[static_cast<std::size_t>(*where[axis].dimension())];
    const IndexRange part = shard(range.size, mesh.size(axis), at[axis]);
    range = {range.begin + part.begin, part.size};
  }
  return box;
}

Shape local_shape(const Shape& whole, const Placements& placements, const Mesh& mesh, const Mesh::Coordinates& at) {
  const std::vector<IndexRange> box = local_box(whole, placements, mesh, at);
  std::vector<std::int64_t> sizes;
  std::transform(box.begin(), box.end(), std::back_inserter(sizes), [](const IndexRange& range) { return range.size; });
  return Shape(sizes);
}

}  // namespace heddle

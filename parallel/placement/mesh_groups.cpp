#include "parallel/placement/mesh_groups.h"

namespace heddle {

namespace {

/// The fewest axes that have the same group.
AxisSet group_axes(AxisSet axes, const Mesh& mesh) {
  axes = mesh.larger_than_one(axes);
  if (axes.contains(Axis::pp)) axes.erase(Axis::copies);
  return axes;
}

}  // namespace

MeshGroups::MeshGroups(Communicator& world, const Mesh& mesh) : world_(world), mesh_(mesh) {
  for (unsigned index = 0; index < groups_.size(); ++index) {
    const AxisSet axes = AxisSet::of_index(index);
    const std::vector<int> members = mesh.ranks_over(axes, world.rank());
    if (axes == group_axes(axes, mesh) && static_cast<int>(members.size()) < world.size())
      groups_[index].emplace(world.split(members.front()));
  }
}

Communicator& MeshGroups::over(AxisSet axes) {
  std::optional<Communicator>& group = groups_[group_axes(axes, mesh_).index()];
  return group ? *group : world_;
}

}  // namespace heddle

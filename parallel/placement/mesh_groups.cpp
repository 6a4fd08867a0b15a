#include "parallel/placement/mesh_groups.h"

namespace heddle {

MeshGroups::MeshGroups(Communicator& world, const Mesh& mesh) : world_(world), mesh_(mesh) {
  for (unsigned index = 0; index < groups_.size(); ++index) {
    AxisSet axes;
    for (const Axis axis : all_axes)
      if ((index >> static_cast<unsigned>(axis) & 1U) != 0) axes.insert(axis);
    const std::vector<int> members = mesh.ranks_over(axes, world.rank());
    if (axes == mesh.larger_than_one(axes) && static_cast<int>(members.size()) < world.size())
      groups_[index].emplace(world.split(members.front()));
  }
}

Communicator& MeshGroups::over(AxisSet axes) {
  std::optional<Communicator>& group = groups_[mesh_.larger_than_one(axes).index()];
  return group ? *group : world_;
}

}  // namespace heddle

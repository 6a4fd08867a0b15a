// One rank's communicators over parts of the mesh: each has the ranks that differ from it along some axes only. Equal
// groups share one communicator, and the group of all ranks is the world.
#pragma once

#include <array>
#include <optional>

#include "parallel/communicator/communicator.h"
#include "parallel/placement/mesh.h"

namespace heddle {

class MeshGroups {
 public:
  /// A collective call of all ranks of the world, which must outlive this.
  MeshGroups(Communicator& world, const Mesh& mesh);

  /// The ranks that differ from this one along `axis` only; rank() is the coordinate.
  Communicator& along(Axis axis) { return over({axis}); }
  /// The ranks that differ from this one along these axes only, in the order of the world's ranks.
  Communicator& over(AxisSet axes);

  const Mesh& mesh() const { return mesh_; }
  /// The world rank of this rank, and its coordinates on the mesh.
  int rank() const { return world_.rank(); }
  Mesh::Coordinates coordinates() const { return mesh_.coordinates(world_.rank()); }

 private:
  Communicator& world_;
  Mesh mesh_;
  /// By AxisSet::index(); none where the group is the world, where an axis has one rank, and for pp with copies.
  std::array<std::optional<Communicator>, AxisSet::count> groups_;
};

}  // namespace heddle

// Everything that makes a rank: passed as a reference, never global. Lives as long as the rank's body runs.
#pragma once

#include "framework/scalars/random.h"
#include "framework/tensors/device.h"
#include "parallel/communicator/communicator.h"
#include "parallel/communicator/rank_clock.h"
#include "parallel/placement/mesh.h"
#include "parallel/placement/mesh_groups.h"

namespace heddle {

struct Rank {
  /// 0 .. size-1 in the world.
  int index;
  int size;
  Device& device;
  Communicator& world;
  MeshGroups& groups;
  Mesh mesh;
  Mesh::Coordinates coordinates;
  RandomKey key;
  /// What this rank sent and received so far, on all its communicators.
  const ByteCounter& bytes;
  /// Wall or virtual.
  const RankClock& clock;

  /// The ranks that differ from this one along one axis only, e.g. along dp those that hold the same part of the model
  /// and other samples. Its rank() is the coordinate.
  Communicator& along(Axis axis) const { return groups.along(axis); }
  Communicator& over(AxisSet axes) const { return groups.over(axes); }
};

}  // namespace heddle

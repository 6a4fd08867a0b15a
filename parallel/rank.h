// Everything that makes a rank: passed as a reference, never global. Lives as long as the rank's body runs.
#pragma once

#include "framework/device.h"
#include "framework/random.h"
#include "parallel/communicator.h"
#include "parallel/mesh.h"
#include "parallel/mesh_groups.h"
#include "parallel/rank_clock.h"

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

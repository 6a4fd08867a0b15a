// Everything that belongs to one rank. It is passed as a reference and never global. It lives as long as the rank's
// body runs.
#pragma once

#include "framework/scalars/random.h"
#include "framework/tensors/device.h"
#include "parallel/communicator/communicator.h"
#include "parallel/communicator/rank_clock.h"
#include "parallel/placement/mesh.h"
#include "parallel/placement/mesh_groups.h"

namespace heddle {

struct Rank {
  /// The world rank, 0 .. size-1.
  int index;
  int size;
  Device& device;
  Communicator& world;
  MeshGroups& groups;
  Mesh mesh;
  Mesh::Coordinates coordinates;
  RandomKey key;
  /// The bytes that this rank has sent and received so far, on all its communicators.
  const ByteCounter& bytes;
  /// A wall clock or a virtual clock.
  RankClock& clock;

  /// The ranks that differ from this one along one axis only, e.g. along dp those that hold the same part of the model
  /// and different samples. Its rank() is the coordinate.
  Communicator& along(Axis axis) const { return groups.along(axis); }
  Communicator& over(AxisSet axes) const { return groups.over(axes); }
};

}  // namespace heddle

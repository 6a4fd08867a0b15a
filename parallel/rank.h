// Everything that makes a rank: passed as a reference, never global. Lives as long as the rank's body runs.
#pragma once

#include "framework/device.h"
#include "framework/random.h"
#include "parallel/communicator.h"
#include "parallel/mesh.h"
#include "parallel/rank_clock.h"

namespace heddle {

struct Rank {
  /// 0 .. size-1 in the world.
  int index;
  int size;
  Device& device;
  Communicator& world;
  /// The ranks that hold the same part of the model and other samples. Its rank() is the coordinate.
  Communicator& data_parallel;
  Mesh mesh;
  Mesh::Coordinates coordinates;
  RandomKey key;
  /// What this rank sent and received so far, on all its communicators.
  const ByteCounter& bytes;
  /// CPU time outside communicators.
  const RankClock& clock;
};

}  // namespace heddle

// Loops over tiles. On plan, work that involves no other rank takes constant time: planning for a billion classes is as
// fast as for a thousand.
#pragma once

#include <algorithm>
#include <cstdint>

#include "framework/error.h"
#include "framework/tensors/device.h"

namespace heddle {

/// Whether the work on a tile involves other ranks.
enum class TileWork {
  own,    // this rank computes alone
  shared  // for each tile, this rank exchanges something with others
};

/// Calls body(begin, end) for each tile of [0, count), in order. Each tile has `tile` elements, the last one the
/// remainder. On plan, the body of a rank's own work is called for the first two tiles and the last only; the tiles in
/// between count as the second did, so that bytes and FLOPs are the same as if all were visited. Messages to other
/// ranks cannot be counted this way: shared work is done for every tile.
template <class Body>
void for_each_tile(const Device& device, std::int64_t count, std::int64_t tile, Body&& body,
                   TileWork work = TileWork::own) {
  if (tile < 1) fail("tiles: expected at least 1 element per tile, got {}", tile);
  const std::int64_t tiles = count / tile + (count % tile > 0 ? 1 : 0);
  const auto walk = [&](std::int64_t i) { body(i * tile, std::min((i + 1) * tile, count)); };
  if (device.has_data() || work == TileWork::shared || tiles <= 3) {
    for (std::int64_t i = 0; i < tiles; ++i) walk(i);
    return;
  }
  walk(0);
  const PlannedWork before = device.backend().work();
  walk(1);
  device.backend().repeat(before, tiles - 3);
  walk(tiles - 1);
}

}  // namespace heddle

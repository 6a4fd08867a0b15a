// Loops over tiles. Plan walks them in closed form: a billion classes take it no longer than a thousand.
#pragma once

#include <algorithm>
#include <cstdint>

#include "framework/error.h"
#include "framework/tensors/device.h"

namespace heddle {

/// What is done with a tile.
enum class TileWork {
  own,    // the rank's own
  shared  // the rank exchanges something of each tile with others
};

/// Calls body(begin, end) for each tile of [0, count), in order; all have `tile` elements, the last one what remains.
/// On plan, if the work is the rank's own, the body is called for the first two tiles and the last; those between are
/// alike and count as the second did, so that bytes and FLOPs are those of walking them all. What is sent to other
/// ranks cannot be counted so: shared work is done for every tile.
template <class Body>
void for_each_tile(const Device& device, std::int64_t count, std::int64_t tile, Body&& body,
                   TileWork work = TileWork::own) {
  if (tile < 1) fail("tiles: expected at least 1 element a tile, got {}", tile);
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

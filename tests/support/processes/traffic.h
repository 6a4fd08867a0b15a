// Moves every kind of data that communication can move, in one call, to compare transports.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "parallel/rank.h"

namespace heddle::test {

/// Calls every verb that moves elements, on `count` elements per rank, and returns what arrived, as bytes.
std::vector<std::byte> traffic(Rank& rank, std::int64_t count, DType dtype);

}  // namespace heddle::test

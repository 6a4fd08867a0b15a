// All that communication can move, in one call: for comparing transports.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "parallel/rank.h"

namespace heddle::test {

/// Every verb that moves elements, on `count` of them a rank; what came, as bytes.
std::vector<std::byte> traffic(Rank& rank, std::int64_t count, DType dtype);

}  // namespace heddle::test

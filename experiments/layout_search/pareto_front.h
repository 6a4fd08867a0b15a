// Which layouts trade time for memory.
#pragma once

#include <vector>

#include "experiments/layout_search/layout_search.h"

namespace heddle {

/// The layouts that no other beats in time and in memory, from the fastest on.
std::vector<WeighedLayout> front_of(std::vector<WeighedLayout> all);

}  // namespace heddle

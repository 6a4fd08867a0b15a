#include "experiments/layout_search/pareto_front.h"

#include <algorithm>
#include <utility>

namespace heddle {

std::vector<WeighedLayout> front_of(std::vector<WeighedLayout> all) {
  std::ranges::sort(all, {},
                    [](const WeighedLayout& each) { return std::pair(each.figures.seconds, each.figures.fullness); });
  std::vector<WeighedLayout> front;
  for (const WeighedLayout& each : all)
    if (front.empty() || each.figures.fullness < front.back().figures.fullness) front.push_back(each);
  return front;
}

}  // namespace heddle

#include "experiments/layout_search/pareto_front.h"

#include <algorithm>

namespace heddle {

bool have_equal_figures(const WeighedLayout& a, const WeighedLayout& b) {
  return a.cost() == b.cost() && a.figures.bytes == b.figures.bytes;
}

std::vector<WeighedLayout> first_distinct(const std::vector<WeighedLayout>& ranking, std::size_t count) {
  std::vector<WeighedLayout> distinct;
  for (const WeighedLayout& each : ranking) {
    if (distinct.size() == count) break;
    if (distinct.empty() || !have_equal_figures(distinct.back(), each)) distinct.push_back(each);
  }
  return distinct;
}

std::vector<WeighedLayout> front_of(std::vector<WeighedLayout> all) {
  std::ranges::stable_sort(all, {}, &WeighedLayout::cost);
  std::vector<WeighedLayout> front;
  for (const WeighedLayout& each : all)
    if (front.empty() || each.figures.fullness < front.back().figures.fullness) front.push_back(each);
  return front;
}

}  // namespace heddle

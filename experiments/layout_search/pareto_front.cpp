#include "experiments/layout_search/pareto_front.h"

#include <algorithm>
#include <utility>

namespace heddle {

namespace {

/// Each is smaller than the one before it by this share at least.
std::vector<WeighedLayout> front_of(std::vector<WeighedLayout> all, double min_gain) {
  std::ranges::stable_sort(all, {}, &WeighedLayout::cost);
  std::vector<WeighedLayout> front;
  for (const WeighedLayout& each : all)
    if (front.empty() || each.figures.fullness < (1 - min_gain) * front.back().figures.fullness) front.push_back(each);
  return front;
}

}  // namespace

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
  return front_of(std::move(all), 0);
}

std::vector<WeighedLayout> sparse_front_of(std::vector<WeighedLayout> all) {
  constexpr double min_gain = 0.01;
  return front_of(std::move(all), min_gain);
}

}  // namespace heddle

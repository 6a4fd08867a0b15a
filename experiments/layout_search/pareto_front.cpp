#include "experiments/layout_search/pareto_front.h"

#include <algorithm>
#include <cmath>

namespace heddle {

namespace {

/// Each is smaller than the one before it by this share at least.
std::vector<WeighedLayout> front_of(const std::vector<WeighedLayout>& all, double min_gain) {
  std::vector<WeighedLayout> front;
  const auto is_before = [](const WeighedLayout& a, const WeighedLayout& b) { return a.cost() < b.cost(); };
  for (const WeighedLayout* const each : ordered(all, is_before))
    if (front.empty() || each->figures.fullness < (1 - min_gain) * front.back().figures.fullness)
      front.push_back(*each);
  return front;
}

}  // namespace

bool have_equal_figures(const WeighedLayout& a, const WeighedLayout& b) {
  constexpr double tolerance = 1e-3;
  const auto are_close = [](double x, double y) { return std::abs(x - y) <= tolerance * std::max(x, y); };
  return are_close(a.figures.seconds, b.figures.seconds) && are_close(a.figures.fullness, b.figures.fullness);
}

bool has_equal(const std::vector<WeighedLayout>& layouts, const WeighedLayout& other) {
  return std::ranges::any_of(layouts, [&](const WeighedLayout& each) { return have_equal_figures(each, other); });
}

std::vector<WeighedLayout> first_distinct(const std::vector<const WeighedLayout*>& ranking, std::size_t count) {
  std::vector<WeighedLayout> distinct;
  for (const WeighedLayout* const each : ranking) {
    if (distinct.size() == count) break;
    if (!has_equal(distinct, *each)) distinct.push_back(*each);
  }
  return distinct;
}

std::vector<WeighedLayout> front_of(const std::vector<WeighedLayout>& all) {
  return front_of(all, 0);
}

std::vector<WeighedLayout> sparse_front_of(const std::vector<WeighedLayout>& all) {
  constexpr double min_gain = 0.01;
  return front_of(all, min_gain);
}

}  // namespace heddle

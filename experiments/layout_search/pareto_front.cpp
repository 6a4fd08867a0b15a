#include "experiments/layout_search/pareto_front.h"

#include <algorithm>
#include <cmath>

namespace heddle {

namespace {

/// Each is smaller than the one before it by this share at least.
std::vector<LayoutCandidate> front_of(const std::vector<LayoutCandidate>& all, double min_gain) {
  std::vector<LayoutCandidate> front;
  const auto is_before = [](const LayoutCandidate& a, const LayoutCandidate& b) { return a.cost() < b.cost(); };
  for (const LayoutCandidate* const each : ordered(all, is_before))
    if (front.empty() || each->figures.fullness < (1 - min_gain) * front.back().figures.fullness)
      front.push_back(*each);
  return front;
}

}  // namespace

bool have_equal_figures(const LayoutCandidate& a, const LayoutCandidate& b) {
  constexpr double tolerance = 1e-3;
  const auto are_close = [](double x, double y) { return std::abs(x - y) <= tolerance * std::max(x, y); };
  return are_close(a.figures.seconds, b.figures.seconds) && are_close(a.figures.fullness, b.figures.fullness);
}

bool has_equal(const std::vector<LayoutCandidate>& layouts, const LayoutCandidate& other) {
  return std::ranges::any_of(layouts, [&](const LayoutCandidate& each) { return have_equal_figures(each, other); });
}

std::vector<LayoutCandidate> first_distinct(const std::vector<const LayoutCandidate*>& ranking, std::size_t count) {
  std::vector<LayoutCandidate> distinct;
  for (const LayoutCandidate* const each : ranking) {
    if (distinct.size() == count) break;
    if (!has_equal(distinct, *each)) distinct.push_back(*each);
  }
  return distinct;
}

std::vector<LayoutCandidate> front_of(const std::vector<LayoutCandidate>& all) {
  return front_of(all, 0);
}

std::vector<LayoutCandidate> sparse_front_of(const std::vector<LayoutCandidate>& all) {
  constexpr double min_gain = 0.01;
  return front_of(all, min_gain);
}

}  // namespace heddle

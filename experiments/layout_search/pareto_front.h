// Which layouts of many are worth showing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "experiments/layout_search/layout_search.h"

namespace heddle {

/// Whether their times and their memory agree within 0.1 %.
bool have_equal_figures(const LayoutCandidate& a, const LayoutCandidate& b);

/// The layouts in the order in which `is_before(a, b)` puts them, and equal ones as they are.
template <class IsBefore>
std::vector<const LayoutCandidate*> ordered(const std::vector<LayoutCandidate>& layouts, const IsBefore& is_before) {
  std::vector<const LayoutCandidate*> order;
  for (const LayoutCandidate& each : layouts) order.push_back(&each);
  std::ranges::stable_sort(order, [&](const auto* a, const auto* b) { return is_before(*a, *b); });
  return order;
}

/// Whether one of the layouts has equal figures.
bool has_equal(const std::vector<LayoutCandidate>& layouts, const LayoutCandidate& other);

/// The first `count` layouts of a ranking that differ in their figures from all that they follow.
std::vector<LayoutCandidate> first_distinct(const std::vector<const LayoutCandidate*>& ranking, std::size_t count);

/// The layouts that no other beats in time and in memory, from the fastest on; of equal ones, the first.
std::vector<LayoutCandidate> front_of(const std::vector<LayoutCandidate>& all);

/// The same without those that are hardly smaller than a faster one.
std::vector<LayoutCandidate> sparse_front_of(const std::vector<LayoutCandidate>& all);

}  // namespace heddle

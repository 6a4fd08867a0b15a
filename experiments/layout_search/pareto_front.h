// Which layouts of many are worth showing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "experiments/layout_search/layout_search.h"

namespace heddle {

/// Whether their times and their memory agree within 0.1 %.
bool have_equal_figures(const WeighedLayout& a, const WeighedLayout& b);

/// The layouts in the order in which `is_before(a, b)` puts them, and equal ones as they are.
template <class IsBefore>
std::vector<const WeighedLayout*> ordered(const std::vector<WeighedLayout>& layouts, const IsBefore& is_before) {
  std::vector<const WeighedLayout*> order;
  for (const WeighedLayout& each : layouts) order.push_back(&each);
  std::ranges::stable_sort(order, [&](const auto* a, const auto* b) { return is_before(*a, *b); });
  return order;
}

/// Whether one of the layouts has equal figures.
bool has_equal(const std::vector<WeighedLayout>& layouts, const WeighedLayout& other);

/// The first `count` layouts of a ranking that differ in their figures from all that they follow.
std::vector<WeighedLayout> first_distinct(const std::vector<const WeighedLayout*>& ranking, std::size_t count);

/// The layouts that no other beats in time and in memory, from the fastest on; of equal ones, the first.
std::vector<WeighedLayout> front_of(const std::vector<WeighedLayout>& all);

/// The same without those that are hardly smaller than a faster one.
std::vector<WeighedLayout> sparse_front_of(const std::vector<WeighedLayout>& all);

}  // namespace heddle

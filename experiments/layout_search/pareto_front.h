// Which layouts of many are worth showing.
#pragma once

#include <cstddef>
#include <vector>

#include "experiments/layout_search/layout_search.h"

namespace heddle {

/// Whether they have the same cost() and the same bytes.
bool have_equal_figures(const WeighedLayout& a, const WeighedLayout& b);

/// The first `count` layouts of a ranking that differ in their figures; of equal ones, which follow each other, the
/// first.
std::vector<WeighedLayout> first_distinct(const std::vector<WeighedLayout>& ranking, std::size_t count);

/// The layouts that no other beats in time and in memory, from the fastest on; of equal ones, the first.
std::vector<WeighedLayout> front_of(std::vector<WeighedLayout> all);

/// The same without those that are hardly smaller than a faster one.
std::vector<WeighedLayout> sparse_front_of(std::vector<WeighedLayout> all);

}  // namespace heddle

// What `heddle plan --search` prints and draws: the best layouts, what single changes of the experiment bring, and
// which layouts trade time for memory.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "experiments/layout_search/layout_search.h"
#include "framework/description/byte_units.h"

namespace heddle {

/// The search of one variant.
struct LayoutReport {
  std::string name;
  std::string error{};  // why no layout fits; empty if one does
  int ranks = 1;
  std::vector<std::int64_t> rank_budgets{};  // ranks.memory_budget
  std::int64_t budget = 0;                   // 0: none
  LayoutSearchResult result{};

  /// The memory of a layout's fullest rank: in bytes or, where ranks have budgets of their own, in percent of its
  /// budget.
  double memory_of(const LayoutCandidate& candidate) const;
  Unit memory_unit(std::span<const double> memories) const;
  std::string memory_words(const LayoutCandidate& candidate) const;
  /// In the same measure; 0: none.
  double memory_limit() const;
};

/// The tables of a search that has found a layout.
std::string layout_text(const LayoutReport& report);
/// `file`: the experiment that was written.
std::string layouts_json(const std::string& name, std::span<const LayoutReport> reports, const std::string& file);
/// The picture of a search that has found a layout, as one self-contained file: step time to the right, peak memory of
/// the fullest rank upwards. Every layout has a title with its options and figures.
std::string layouts_svg(const LayoutReport& report);

/// `79.2 ms, 12 MiB` or `79.2 ms, 92.4 % of the rank's budget`, behind a ~ if they are estimated.
std::string figures_words(const LayoutReport& report, const LayoutCandidate& candidate);

/// Where no layout fits: the one that needs the least, and the category that takes most of it.
std::string why_none_fits(const LayoutReport& report);

}  // namespace heddle

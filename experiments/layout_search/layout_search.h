// Searches for the layout with which a step of an experiment is shortest, and every rank stays within its memory.
//
// The whole space is too large to plan. All meshes, numbers of micro-batches, schedules, recomputations and
// offloadings are estimated (LayoutEstimator), the best estimate of each mesh is improved one option at a time, and the
// layouts around the front of time and memory are estimated. The layout that leads is planned (LayoutPlanner), which
// corrects the estimates of those around it (KnownLayouts), and so on until the leaders are planned or the search has
// simulated enough. Where few layouts are possible, all are planned. Layouts that are too large to be planned are
// ranked by their estimates, made larger by the largest error that the plans of others have shown. The same search
// gives the same result on every machine.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/layout_search/layout_figures.h"

namespace heddle {

/// Planned, or estimated.
struct LayoutCandidate {
  Layout layout{};
  LayoutFigures figures{};
  bool fits = true;
  int distance_from_written = 0;  // the number of options in which it differs from the experiment
  bool is_planned() const { return figures.peak.has_value(); }
  /// What layouts are compared by: the seconds, as a float because sums in another order differ in later digits, and
  /// RankBudgets::fullness: the share of the budget or, where no rank has one, the bytes.
  std::pair<double, double> cost() const { return {static_cast<float>(figures.seconds), figures.fullness}; }
};

/// A layout that differs from the experiment's in one option.
struct LayoutChange {
  LayoutOption option = LayoutOption::mesh;
  LayoutCandidate changed{};
};

struct LayoutSearchOptions {
  int ranks = 1;
  AllowedChanges allowed{};
  /// How much may be simulated: the layers that all ranks compute in a step, four for the messages of each stage and
  /// micro-batch, and 100 for the rest of each rank, summed over the layouts that are planned; the experiment's own
  /// layout is not counted.
  double max_work = 240'000;
  std::function<void(const std::string&)> on_progress = [](const std::string&) {};
  /// Whether to end with the best that has been found.
  std::function<bool()> is_interrupted = [] { return false; };
};

struct LayoutSearchResult {
  /// The experiment as it is written, planned. If planning it would exceed max_work, it is estimated, or absent if its
  /// mesh has another number of ranks than the search.
  std::optional<LayoutCandidate> written{};
  /// The fastest layouts that fit, at most ten. Of those whose times agree to seven digits, the smaller one comes
  /// first, and of those with the same memory, too, the one that differs from the experiment in the fewest options.
  /// Those whose time and memory agree within 0.1 % with those of one before are left out.
  std::vector<LayoutCandidate> best{};
  bool has_equal_layouts = false;  // whether any are left out
  /// Those than which no other layout is both faster and smaller, from the fastest to the smallest.
  std::vector<LayoutCandidate> front{};
  /// All that were planned, and estimates of others, in no order.
  std::vector<LayoutCandidate> layouts{};
  /// For each option the fastest layout that fits and differs from the experiment's in that option alone.
  std::vector<LayoutChange> changes{};
  /// The layout with the smallest peak memory, planned if any is.
  LayoutCandidate smallest{};
  double bound = 0;  // min_step_seconds
  /// The parts of the batch that batch norms normalise, if the search had to keep their number.
  std::optional<std::int64_t> norm_groups{};
  std::size_t considered = 0;  // layouts in the space
  std::size_t estimated = 0;
  std::size_t planned = 0;
  /// Whether layouts that lead the ranking were not planned, because that would exceed max_work.
  bool is_exhausted = false;
  bool is_interrupted = false;
};

/// `written` is on plan; a layout fits if no rank exceeds its budget. InputError, with the reason for each mesh, if
/// no layout is possible.
LayoutSearchResult search_layouts(const Experiment& written, const LayoutSpace& space,
                                  const std::shared_ptr<const Dataset>& dataset, const LayoutSearchOptions& options);

}  // namespace heddle

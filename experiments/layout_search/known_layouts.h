// What a search knows of each layout: its estimate and, once it has been planned, its exact figures.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "experiments/layout_search/layout_search.h"

namespace heddle {

/// Estimates are corrected by plans: the estimate of a layout is multiplied by the error that the nearest layout which
/// has been planned has shown, in time and in memory. The nearest one differs in the fewest options; of several, it is
/// the one that was planned last.
class KnownLayouts {
 public:
  /// Empty where the checks of the experiment refuse the layout.
  using MaybeCandidate = std::optional<LayoutCandidate>;
  /// Estimates or plans one layout.
  using Evaluate = std::function<LayoutFigures()>;

  /// `written`: the layout of the experiment.
  KnownLayouts(const Layout& written, bool has_budget) : written_(values_of(written)), has_budget_(has_budget) {}

  /// Calls `evaluate` unless the layout is estimated already; its InputError refuses the layout. The result is
  /// corrected.
  MaybeCandidate estimated(const Layout& layout, const Evaluate& evaluate);
  /// The same for a plan, which corrects other estimates from now on.
  MaybeCandidate planned(const Layout& layout, const Evaluate& evaluate);
  void refuse(const Layout& layout, const std::string& why);

  /// The plans, and the corrected estimates of layouts that have none. Of these, some that exceed their budget by
  /// little count as fitting, so that they are planned.
  std::vector<LayoutCandidate> all() const;
  /// The same with estimates that are larger by the largest error which a corrected estimate has had, so that a layout
  /// leads by an estimate only if no error that is known could have made it lead, and fits only within its budget.
  std::vector<LayoutCandidate> all_with_margins() const;
  std::vector<LayoutCandidate> plans() const;
  std::size_t estimates_count() const { return estimates_; }
  std::size_t plans_count() const { return plans_; }
  /// The reason for which a layout with this mesh was refused last.
  const std::map<std::string, std::string>& refusals() const { return refusals_; }

 private:
  /// By how much plans differ from estimates.
  struct Ratio {
    double seconds = 1;
    double bytes = 1;
  };
  struct Entry {
    Layout layout{};
    LayoutValues values{};
    int distance_from_written = 0;
    std::optional<LayoutFigures> estimate{};
    std::optional<LayoutFigures> plan{};
    bool is_refused = false;
    const Entry* nearest = nullptr;  // of those with an estimate and a plan
    int distance = 0;                // to `nearest`
  };

  Entry& entry_of(const Layout& layout);
  MaybeCandidate candidate_of(const Entry& entry, const Ratio& margin, double max_fullness) const;
  std::vector<LayoutCandidate> all_with(const Ratio& margin, double max_fullness) const;
  static LayoutFigures scaled(LayoutFigures figures, const Ratio& ratio);
  static Ratio error_of(const Entry& entry);
  static void compare_with(Entry& entry, const Entry& plan);
  void record_error(const Entry& entry);
  /// Calls `evaluate` for one of the entry's figures; its InputError refuses the layout. Returns whether it has them.
  bool try_to_evaluate(Entry& entry, std::optional<LayoutFigures>& figures, const Evaluate& evaluate);
  void correct_others(const Entry& plan);

  LayoutValues written_;
  bool has_budget_;
  std::map<std::string, Entry> entries_;
  std::vector<const Entry*> correcting_;  // those with an estimate and a plan, in the order in which they were made
  Ratio max_error_{};                     // of corrected estimates
  std::size_t estimates_ = 0;
  std::size_t plans_ = 0;
  std::map<std::string, std::string> refusals_;
};

}  // namespace heddle

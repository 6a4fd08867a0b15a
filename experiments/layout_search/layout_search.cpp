#include "experiments/layout_search/layout_search.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <span>

#include "experiments/layout_search/pareto_front.h"
#include "experiments/training/experiment_checks.h"
#include "framework/error.h"

namespace heddle {

namespace {

constexpr std::size_t max_best = 10;
/// A layout whose estimated memory exceeds its budget by at most this factor is planned like one that fits.
constexpr double max_memory_error = 1.34;
/// Descents from estimates begin at so many layouts.
constexpr std::size_t max_starts = 6;
/// A change is planned unless its estimate is worse than that of the layout before by more than this factor.
constexpr double max_estimated_loss = 1.25;
/// The share of LayoutSearchOptions::max_work that is kept for the layouts that lead the ranking in the end.
constexpr double kept_work = 0.2;
/// All starts are estimated if their schedules have so many cells together, else one schedule for each mesh and number
/// of micro-batches.
constexpr std::int64_t max_start_cells = 1'000'000;

using Weighed = std::optional<WeighedLayout>;  // nothing where the layout is not possible

/// What a descent makes smaller.
enum class Goal { seconds, bytes };

class Search {
 public:
  Search(const Experiment& written, const LayoutSpace& space, const std::shared_ptr<const Dataset>& dataset,
         const LayoutSearchOptions& options)
      : written_(written),
        space_(space),
        options_(options),
        has_budget_(written.min_budget(options.ranks) > 0),
        planner_(dataset),
        estimator_(space, planner_.plan_serially(written)) {}

  LayoutSearchResult run() {
    result_.considered = space_.size();
    result_.bound = bound_seconds(written_, options_.ranks);
    result_.norm_groups = space_.fixed_norm_groups();
    weigh_written();
    if (!plan_all()) {
      estimate_starts();
      plan_promising();
      plan_smallest();
      plan_leaders();
    }
    gather();
    return std::move(result_);
  }

 private:
  bool stops() {
    result_.is_interrupted = result_.is_interrupted || (has_found_ && options_.is_interrupted());
    return result_.is_interrupted;
  }

  /// The layers that all ranks compute in a step; the messages of each micro-batch count as four layers of each stage.
  double work_of(const MeshConfig& mesh, std::int64_t micro_batches) const {
    constexpr std::int64_t of_messages = 4;
    return static_cast<double>(mesh.dp * mesh.tp * micro_batches *
                               (static_cast<std::int64_t>(space_.applications()) + of_messages * mesh.pp));
  }
  double work_of(const Layout& layout) const { return work_of(layout.mesh, layout.micro_batches); }
  /// Whether the plans of a search together stay within a share of the bound.
  bool can_plan(const Layout& layout, double share) const {
    return work_ + work_of(layout) <= share * options_.max_work;
  }

  WeighedLayout weighed(const Layout& layout, const LayoutFigures& figures, double max_fullness = 1) const {
    return {layout, figures, !has_budget_ || figures.fullness <= max_fullness};
  }

  template <class Weigh>
  const Weighed& remembered(std::map<std::string, Weighed>& known, const Layout& layout, double max_fullness,
                            const Weigh& weigh) {
    const auto [entry, is_new] = known.try_emplace(to_string(layout));
    if (!is_new) return entry->second;
    try {
      entry->second = weighed(layout, weigh(), max_fullness);
      has_found_ = true;
    } catch (const InputError& error) {
      refuse(layout, error);
    }
    options_.on_progress(fmt::format("layouts: {} estimated, {} planned{}", estimates_.size(), plans_.size(),
                                     best_seconds_ ? fmt::format(", best step {:.4g} s", *best_seconds_) : ""));
    return entry->second;
  }

  /// The experiment's checks refuse the layout.
  void refuse(const Layout& layout, const InputError& error) {
    estimates_[to_string(layout)].reset();
    refusals_[value_of(layout, LayoutOption::mesh)] = error.what();
  }

  const Weighed& estimated(const Layout& layout) {
    return remembered(estimates_, layout, max_memory_error, [&] { return estimator_.estimate(layout); });
  }
  const Weighed& planned(const Layout& layout) {
    return remembered(plans_, layout, 1, [&] {
      work_ += work_of(layout);
      const LayoutFigures figures = planner_.plan(space_.experiment(layout));
      if (weighed(layout, figures).fits)
        best_seconds_ = std::min(best_seconds_.value_or(figures.seconds), figures.seconds);
      return figures;
    });
  }

  /// The order of preference: what fits by time, and then what does not fit by memory. Of equal ones, that which is
  /// closer to the experiment.
  bool is_better(const WeighedLayout& a, const WeighedLayout& b, Goal goal = Goal::seconds) const {
    if (goal == Goal::seconds && a.fits != b.fits) return a.fits;
    const bool by_bytes = goal == Goal::bytes || !a.fits;
    const auto of = [by_bytes](const WeighedLayout& each) {
      const auto [seconds, fullness] = each.cost();
      return by_bytes ? std::pair(fullness, seconds) : std::pair(seconds, fullness);
    };
    if (of(a) != of(b)) return of(a) < of(b);
    return distance(a.layout, space_.written()) < distance(b.layout, space_.written());
  }

  /// Best first.
  std::vector<WeighedLayout> ranked(std::vector<WeighedLayout> layouts) const {
    std::ranges::stable_sort(layouts, [this](const auto& a, const auto& b) { return is_better(a, b); });
    return layouts;
  }

  void weigh_written() {
    if (work_of(written_.mesh, written_.train.micro_batches) <= options_.max_work)
      result_.written = weighed(space_.written(), planner_.plan(written_));
    else if (mesh_of(space_.written().mesh).size() == options_.ranks)
      result_.written = estimated(space_.written());
  }

  /// Returns false if there are too many.
  bool plan_all() {
    const std::vector<Layout> all = space_.all(max_layouts());
    double work = 0;
    for (const Layout& layout : all) work += work_of(layout);
    if (all.empty() || work > options_.max_work) return false;
    for (const Layout& layout : all) {
      if (stops()) break;
      (void)planned(layout);
    }
    return true;
  }
  std::size_t max_layouts() const {
    double least = options_.max_work;
    for (const MeshConfig& mesh : space_.meshes()) least = std::min(least, work_of(mesh, 1));
    return static_cast<std::size_t>(options_.max_work / least);
  }

  /// Changes one option after the other until no change makes the layout better.
  template <class Weigh>
  void descend(const WeighedLayout& start, Goal goal, std::span<const LayoutOption> options, const Weigh& weigh) {
    WeighedLayout current = start;
    for (bool has_improved = true; has_improved && !stops();) {
      has_improved = false;
      for (const LayoutOption option : options) {
        const WeighedLayout before = current;
        for (const Layout& layout : space_.changes(before.layout, option)) {
          if (stops()) break;
          const Weighed changed = weigh(before.layout, layout);
          if (!changed || !is_better(*changed, current, goal)) continue;
          current = *changed;
          has_improved = true;
        }
      }
    }
  }

  void estimate_starts() {
    std::vector<WeighedLayout> starts;
    for (const Layout& layout : starts_to_estimate()) {
      if (stops()) return;
      if (const Weighed& start = estimated(layout)) starts.push_back(*start);
    }
    if (starts.empty()) return;
    const auto weigh = [this](const Layout&, const Layout& layout) { return estimated(layout); };
    const auto improve = [&](const WeighedLayout& start, Goal goal) {
      // The starts have every mesh already, and the planner needs long for the placements of large ones.
      descend(start, goal, std::span(all_of<LayoutOption>).subspan(1), weigh);
    };
    static_assert(all_of<LayoutOption>.front() == LayoutOption::mesh);
    for (const WeighedLayout& start : best_of_meshes(ranked(starts))) improve(start, Goal::seconds);
    const auto is_smaller = [this](const auto& a, const auto& b) { return is_better(a, b, Goal::bytes); };
    improve(*std::ranges::min_element(starts, is_smaller), Goal::bytes);
  }

  /// The first layout of each mesh, on which the other options depend most, up to `max_starts`.
  static std::vector<WeighedLayout> best_of_meshes(const std::vector<WeighedLayout>& best_first) {
    std::vector<WeighedLayout> best;
    std::set<std::string> meshes;
    for (const WeighedLayout& each : best_first) {
      if (best.size() == max_starts) break;
      if (meshes.insert(value_of(each.layout, LayoutOption::mesh)).second) best.push_back(each);
    }
    return best;
  }

  std::vector<Layout> starts_to_estimate() const {
    std::int64_t cells = 0;
    for (const Layout& start : space_.starts()) cells += start.mesh.pp * start.chunks * start.micro_batches;
    return cells <= max_start_cells ? space_.starts() : space_.starts_of_one_schedule();
  }

  void plan_promising() {
    plan_changes_of_written();
    const std::vector<WeighedLayout> finalists = ranked(known_in(estimates_));
    const auto plan_each = [this](const std::vector<WeighedLayout>& layouts, double share) {
      for (const WeighedLayout& each : layouts)
        if (!stops() && can_plan(each.layout, share)) (void)planned(each.layout);
    };
    plan_each(front_of(finalists), 1.0 / 3);
    plan_each(best_of_meshes(finalists), 1.0 / 2);
    plan_each(finalists, 1.0 / 2);
    for (const WeighedLayout& start : best_of_meshes(ranked(known_in(plans_)))) improve_plan(start, 1 - kept_work);
    const std::vector<WeighedLayout> best = ranked(known_in(plans_));
    for (std::size_t i = 0; i < std::min(max_starts, best.size()); ++i) improve_plan(best[i], 1 - kept_work);
  }

  /// Descends from a planned layout, until the plans of the search have used up this share of what they may.
  void improve_plan(const WeighedLayout& start, double share) {
    descend(start, Goal::seconds, all_of<LayoutOption>, [&](const Layout& before, const Layout& layout) -> Weighed {
      if (!is_promising(before, layout) || !can_plan(layout, share)) return {};
      return planned(layout);
    });
  }

  /// Plans the changes of each option that are likely to be its best ones.
  void plan_changes_of_written() {
    if (!result_.written || mesh_of(space_.written().mesh).size() != options_.ranks) return;
    constexpr std::size_t max_planned = 2;
    for (const LayoutOption option : all_of<LayoutOption>) {
      std::vector<WeighedLayout> changed;
      for (const Layout& layout : space_.changes(space_.written(), option)) {
        if (stops()) return;
        if (const Weighed& change = estimated(layout)) changed.push_back(*change);
      }
      changed = ranked(std::move(changed));
      for (std::size_t i = 0; i < std::min(max_planned, changed.size()); ++i)
        if (!stops() && can_plan(changed[i].layout, 1)) (void)planned(changed[i].layout);
    }
  }

  /// If nothing that is planned fits: plans what is smallest by its estimate, until something fits, and improves that.
  void plan_smallest() {
    if (!has_budget_ || best_seconds_) return;
    std::vector<WeighedLayout> smallest = known_in(estimates_);
    std::ranges::stable_sort(smallest, {}, [](const WeighedLayout& each) { return each.figures.fullness; });
    for (const WeighedLayout& each : smallest) {
      if (stops() || best_seconds_) break;
      if (can_plan(each.layout, 1)) (void)planned(each.layout);
    }
    if (best_seconds_) improve_plan(ranked(known_in(plans_)).front(), 1);
  }

  /// Plans the layouts that lead the ranking by an estimate, until all that can be planned are.
  void plan_leaders() {
    for (bool has_planned = true; has_planned && !stops();) {
      has_planned = false;
      for (const WeighedLayout& leader : first_distinct(ranked(known_layouts()), max_best)) {
        if (leader.is_planned() || !can_plan(leader.layout, 1)) continue;
        (void)planned(leader.layout);
        has_planned = true;
        break;
      }
    }
  }

  bool is_promising(const Layout& before, const Layout& layout) {
    const Weighed& from = estimated(before);
    const Weighed& to = estimated(layout);
    if (!from || !to) return false;
    const bool is_slower = to->figures.seconds > max_estimated_loss * from->figures.seconds;
    const bool is_larger = to->figures.fullness > max_estimated_loss * std::max(from->figures.fullness, 1.0);
    return !is_slower && !(has_budget_ && is_larger);
  }

  static std::vector<WeighedLayout> known_in(const std::map<std::string, Weighed>& known) {
    std::vector<WeighedLayout> all;
    for (const auto& [name, layout] : known)
      if (layout) all.push_back(*layout);
    return all;
  }

  /// The plans, and the estimates of layouts that are not planned: as much larger as the plan that exceeds its estimate
  /// most, so that a layout leads by an estimate only if no error that is known could have made it lead.
  std::vector<WeighedLayout> known_layouts() const {
    double later = 1;
    double larger = 1;
    for (const auto& [name, plan] : plans_) {
      const auto estimate = estimates_.find(name);
      if (!plan || estimate == estimates_.end() || !estimate->second) continue;
      const LayoutFigures& estimated = estimate->second->figures;
      later = std::max(later, plan->figures.seconds / estimated.seconds);
      larger = std::max(larger, plan->figures.fullness / estimated.fullness);
    }
    std::vector<WeighedLayout> all = known_in(plans_);
    for (const auto& [name, estimate] : estimates_)
      if (estimate && !plans_.contains(name)) all.push_back(scaled(*estimate, later, larger));
    return all;
  }
  WeighedLayout scaled(const WeighedLayout& estimate, double later, double larger) const {
    LayoutFigures figures = estimate.figures;
    figures.seconds *= later;
    figures.bytes = std::llround(larger * static_cast<double>(figures.bytes));
    figures.fullness *= larger;
    return weighed(estimate.layout, figures);
  }

  void gather() {
    const std::vector<WeighedLayout> all = ranked(known_layouts());
    if (result_.written && !result_.written->is_planned()) {
      const auto is_written = [this](const WeighedLayout& each) {
        return distance(each.layout, space_.written()) == 0;
      };
      if (const auto found = std::ranges::find_if(all, is_written); found != all.end()) result_.written = *found;
    }
    result_.estimated = estimates_.size();
    result_.planned = plans_.size();
    for (const WeighedLayout& each : all) {
      const bool is_equal = !result_.best.empty() && have_equal_figures(result_.best.back(), each);
      if (!each.fits || (result_.best.size() == max_best && !is_equal)) break;
      if (!is_accepted(each)) continue;
      result_.has_equal_layouts = result_.has_equal_layouts || is_equal;
      if (!is_equal) result_.best.push_back(each);
    }
    const auto is_refused = [this](const WeighedLayout& each) { return !is_accepted(each); };
    do result_.front = front_of(ranked(known_layouts()));
    while (std::ranges::any_of(result_.front, is_refused));
    if (result_.front.empty()) space_.refuse_all(refusals_);
    const std::vector<WeighedLayout> plans = known_in(plans_);
    result_.smallest = plans.empty() ? result_.front.back() : front_of(plans).back();
    gather_changes(all);
    result_.layouts = known_layouts();  // without those that the checks have refused by now
  }

  /// Whether the experiment's checks accept the layout, which a plan of it has shown.
  bool is_accepted(const WeighedLayout& weighed) {
    if (weighed.is_planned()) return true;
    try {
      check(space_.experiment(weighed.layout));
      return true;
    } catch (const InputError& error) {
      refuse(weighed.layout, error);
      return false;
    }
  }

  /// `all`: best first.
  void gather_changes(const std::vector<WeighedLayout>& all) {
    if (!result_.written) return;
    for (const LayoutOption option : all_of<LayoutOption>) {
      std::set<std::string> names;
      for (const Layout& layout : space_.changes(space_.written(), option)) names.insert(to_string(layout));
      const auto found = std::find_if(all.begin(), all.end(), [&](const WeighedLayout& each) {
        return each.fits && names.contains(to_string(each.layout)) && is_accepted(each);
      });
      if (found != all.end()) result_.changes.push_back({option, *found});
    }
  }

  const Experiment& written_;
  const LayoutSpace& space_;
  const LayoutSearchOptions& options_;
  const bool has_budget_;
  LayoutPlanner planner_;
  LayoutEstimator estimator_;
  std::map<std::string, Weighed> estimates_;
  std::map<std::string, Weighed> plans_;
  std::map<std::string, std::string> refusals_;  // the last one of each mesh
  std::optional<double> best_seconds_;           // of the planned layouts that fit
  bool has_found_ = false;                       // whether any layout is possible
  double work_ = 0;                              // of all plans
  LayoutSearchResult result_;
};

}  // namespace

LayoutSearchResult search_layouts(const Experiment& written, const LayoutSpace& space,
                                  const std::shared_ptr<const Dataset>& dataset, const LayoutSearchOptions& options) {
  return Search(written, space, dataset, options).run();
}

}  // namespace heddle

#include "experiments/layout_search/layout_search.h"

#include <algorithm>
#include <set>
#include <span>

#include "experiments/layout_search/known_layouts.h"
#include "experiments/layout_search/pareto_front.h"
#include "experiments/training/experiment_checks.h"
#include "framework/error.h"

namespace heddle {

namespace {

constexpr std::size_t max_best = 10;
/// The number of layouts whose neighbours are estimated before the first plan.
constexpr std::size_t max_explored = 40;
/// The number of leading layouts whose neighbours are estimated between plans.
constexpr std::size_t max_leaders = 6;
/// Within a budget, where many plans do not fit, the work may be so many times LayoutSearchOptions::max_work.
constexpr double work_within_budget = 1.5;
/// The share of the work for the changes of single options of the experiment.
constexpr double work_for_changes = 0.15;
/// The same for layouts that lead in the end, beyond the other plans, also after an interruption.
constexpr double work_for_winner = 0.1;
/// The same for all layouts of a space, where they are so few that all are planned.
constexpr double work_for_all = 0.5;
/// All starts are estimated if their schedules have so many cells together, else one schedule for each mesh and number
/// of micro-batches.
constexpr std::int64_t max_start_cells = 1'000'000;
/// Estimates are improved in so many meshes. If there are more, the mesh of a layout is not changed while estimates are
/// improved: the planner needs long for the placements of each.
constexpr std::size_t max_improved_meshes = 16;

using MaybeCandidate = KnownLayouts::MaybeCandidate;

class Search {
 public:
  Search(const Experiment& written, const LayoutSpace& space, const std::shared_ptr<const Dataset>& dataset,
         const LayoutSearchOptions& options)
      : written_(written),
        space_(space),
        options_(options),
        has_budget_(written.min_budget(options.ranks) > 0),
        max_work_((has_budget_ ? work_within_budget : 1) * options.max_work),
        planner_(dataset),
        estimator_(space, planner_.plan_serially(written)),
        known_(space.written(), has_budget_) {}

  LayoutSearchResult run() {
    result_.considered = space_.size();
    result_.bound = min_step_seconds(written_, options_.ranks);
    result_.norm_groups = space_.fixed_norm_groups();
    evaluate_written();
    if (!plan_all()) {
      estimate_front();
      plan_changes_of_written();
      plan_leaders();
      plan_winner();
    }
    gather();
    return std::move(result_);
  }

 private:
  bool stops() {
    result_.is_interrupted = result_.is_interrupted || (best_ && options_.is_interrupted());
    return result_.is_interrupted;
  }

  /// As LayoutSearchOptions::max_work counts it.
  double work_of(const MeshConfig& mesh, std::int64_t micro_batches) const {
    constexpr std::int64_t of_messages = 4;
    constexpr std::int64_t of_rank = 100;
    const std::int64_t layers = static_cast<std::int64_t>(space_.applications()) + of_messages * mesh.pp;
    return static_cast<double>(mesh.dp * mesh.tp * micro_batches * layers + of_rank * options_.ranks);
  }
  double work_of(const Layout& layout) const { return work_of(layout.mesh, layout.micro_batches); }
  /// Whether the plans of a search together stay within a share of the bound.
  bool can_plan(const Layout& layout, double share = 1) const { return work_ + work_of(layout) <= share * max_work_; }

  MaybeCandidate estimated(const Layout& layout) {
    return recorded(known_.estimated(layout, [&] { return estimator_.estimate(layout); }));
  }
  MaybeCandidate planned(const Layout& layout) {
    return recorded(known_.planned(layout, [&] {
      work_ += work_of(layout);
      return planner_.plan(space_.experiment(layout));
    }));
  }
  const MaybeCandidate& recorded(const MaybeCandidate& layout) {
    if (layout && (!best_ || (layout->is_planned() && (!best_->is_planned() || is_better(*layout, *best_)))))
      best_ = layout;
    options_.on_progress(fmt::format(
        "layouts: {} estimated, {} planned{}", known_.estimates_count(), known_.plans_count(),
        best_ && best_->is_planned() && best_->fits ? fmt::format(", best step {:.4g} s", best_->figures.seconds)
                                                    : ""));
    return layout;
  }

  /// The order of preference: what fits by time, and then what does not fit by memory. Of equal layouts, the one
  /// closer to the experiment.
  bool is_better(const LayoutCandidate& a, const LayoutCandidate& b) const {
    if (a.fits != b.fits) return a.fits;
    const auto of = [&](const LayoutCandidate& each) {
      const auto [seconds, fullness] = each.cost();
      return a.fits ? std::pair(seconds, fullness) : std::pair(fullness, seconds);
    };
    if (of(a) != of(b)) return of(a) < of(b);
    return a.distance_from_written < b.distance_from_written;
  }

  /// Best first.
  std::vector<LayoutCandidate> ranked(const std::vector<LayoutCandidate>& layouts) const {
    std::vector<LayoutCandidate> sorted;
    for (const LayoutCandidate* const each : order_of(layouts)) sorted.push_back(*each);
    return sorted;
  }
  std::vector<const LayoutCandidate*> order_of(const std::vector<LayoutCandidate>& layouts) const {
    return ordered(layouts, [this](const LayoutCandidate& a, const LayoutCandidate& b) { return is_better(a, b); });
  }

  void evaluate_written() {
    const bool can_be_planned = work_of(written_.mesh, written_.train.micro_batches) <= max_work_;
    const auto plan = [&] { return planner_.plan(written_); };
    if (space_.contains_written())
      result_.written = can_be_planned ? recorded(known_.planned(space_.written(), plan)) : estimated(space_.written());
    else if (can_be_planned)
      result_.written = KnownLayouts(space_.written(), has_budget_).planned(space_.written(), plan);
  }

  /// Returns false if there are too many.
  bool plan_all() {
    const double max_work = work_for_all * max_work_;
    double min_work = max_work;
    for (const MeshConfig& mesh : space_.meshes()) min_work = std::min(min_work, work_of(mesh, 1));
    const std::vector<Layout> all = space_.all(static_cast<std::size_t>(max_work / min_work));
    double work = 0;
    for (const Layout& layout : all) work += work_of(layout);
    if (all.empty() || work > max_work) return false;
    for (const Layout& layout : all) {
      if (stops()) break;
      (void)planned(layout);
    }
    return true;
  }

  std::vector<Layout> starts_to_estimate() const {
    std::int64_t cells = 0;
    for (const Layout& start : space_.starts()) cells += start.mesh.pp * start.chunks * start.micro_batches;
    return cells <= max_start_cells ? space_.starts() : space_.starts_of_one_schedule();
  }

  /// Estimates the starts, and then the layouts around those of the front of time and memory (Paquete, Chiarandini and
  /// Stuetzle, "Pareto local optimum sets in the biobjective traveling salesman problem", 2004): the fastest layout
  /// that fits may be reached from a smaller one or from one that is too large.
  void estimate_front() {
    std::vector<LayoutCandidate> starts;
    for (const Layout& layout : starts_to_estimate()) {
      if (stops()) return;
      if (const MaybeCandidate start = estimated(layout)) starts.push_back(*start);
    }
    for (const LayoutCandidate& start : best_of_meshes(order_of(starts))) descend(start);
    while (!stops() && explored_.size() < max_explored && explore_first(ranked(sparse_front_of(known_.all())))) {
    }
  }

  /// The first layout of each mesh, on which the other options depend most, up to `max_improved_meshes`.
  static std::vector<LayoutCandidate> best_of_meshes(const std::vector<const LayoutCandidate*>& best_first) {
    std::vector<LayoutCandidate> best;
    std::set<std::string> meshes;
    for (const LayoutCandidate* const each : best_first) {
      if (best.size() == max_improved_meshes) break;
      if (meshes.insert(value_of(each->layout, LayoutOption::mesh)).second) best.push_back(*each);
    }
    return best;
  }

  /// The layouts that differ in this option, and those that differ in another one as well which depends on it: the best
  /// placements depend on the mesh and on the size of micro-batches, and how a head works on its ranks.
  std::vector<Layout> neighbours_of(const Layout& layout, LayoutOption option) const {
    std::vector<Layout> neighbours = space_.neighbours(layout, option);
    if (option == LayoutOption::mesh || option == LayoutOption::micro_batches)
      add_changes(neighbours, LayoutOption::placements);
    if (option == LayoutOption::over || option == LayoutOption::logits)
      add_changes(neighbours, LayoutOption::head_work);
    return neighbours;
  }

  /// Appends the layouts that differ from these in one more option.
  void add_changes(std::vector<Layout>& layouts, LayoutOption option) const {
    for (std::size_t i = 0, count = layouts.size(); i < count; ++i)
      for (const Layout& changed : space_.neighbours(layouts[i], option)) layouts.push_back(changed);
  }

  /// Changes one option after the other until no change makes the estimate better.
  void descend(LayoutCandidate current) {
    for (bool has_improved = true; has_improved && !stops();) {
      has_improved = false;
      for (const LayoutOption option : all_of<LayoutOption>) {
        if (option == LayoutOption::mesh) continue;
        for (const Layout& layout : neighbours_of(current.layout, option)) {
          if (stops()) break;
          const MaybeCandidate changed = estimated(layout);
          if (!changed || !is_better(*changed, current)) continue;
          current = *changed;
          has_improved = true;
        }
      }
    }
  }

  /// Estimates all layouts that differ in one option from the first of these whose neighbours are not estimated yet.
  /// Returns false if those of all are known.
  bool explore_first(std::span<const LayoutCandidate> layouts) {
    for (const LayoutCandidate& each : layouts) {
      if (!explored_.insert(to_string(each.layout)).second) continue;
      for (const LayoutOption option : all_of<LayoutOption>) {
        if (option == LayoutOption::mesh && space_.meshes().size() > max_improved_meshes) continue;
        for (const Layout& layout : neighbours_of(each.layout, option))
          if (!stops()) (void)estimated(layout);
      }
      return true;
    }
    return false;
  }

  /// Plans the changes of each option that are likely to be its best ones.
  void plan_changes_of_written() {
    if (!result_.written || !space_.contains_written()) return;
    constexpr std::size_t max_planned = 2;
    for (const LayoutOption option : all_of<LayoutOption>) {
      std::vector<LayoutCandidate> changed;
      for (const Layout& layout : space_.neighbours(space_.written(), option)) {
        if (stops()) return;
        if (const MaybeCandidate change = estimated(layout)) changed.push_back(*change);
      }
      changed = ranked(changed);
      for (std::size_t i = 0; i < std::min(max_planned, changed.size()); ++i)
        if (!stops() && can_plan(changed[i].layout, work_for_changes)) (void)planned(changed[i].layout);
    }
  }

  /// Plans the layout that leads the ranking, and estimates those around the first ones, which its plan corrects, until
  /// nothing changes. The others of the ranking and of the front are planned then, which may change it again.
  void plan_leaders() {
    while (!stops()) {
      const std::vector<LayoutCandidate> known = known_.all();
      const std::vector<LayoutCandidate> leaders = first_distinct(order_of(known), max_best);
      const std::span first(leaders);
      if (plan_first(first.first(std::min<std::size_t>(1, first.size())))) continue;
      if (explore_first(first.first(std::min(max_leaders, first.size())))) continue;
      if (plan_first(rivals_of(known))) continue;
      if (plan_first(first)) continue;
      if (plan_first(front_of(known))) continue;
      break;
    }
  }

  /// The first layouts of the meshes that may win: an estimate of another mesh may be wrong by a few percent, and that
  /// of its memory by more.
  std::vector<LayoutCandidate> rivals_of(const std::vector<LayoutCandidate>& known) const {
    constexpr double max_loss = 1.05;
    std::vector<LayoutCandidate> rivals = best_of_meshes(order_of(known));
    const double max_seconds = rivals.empty() ? 0 : max_loss * rivals.front().figures.seconds;
    if (!rivals.empty() && rivals.front().fits)
      std::erase_if(rivals,
                    [&](const LayoutCandidate& each) { return !each.fits || each.figures.seconds > max_seconds; });
    return rivals;
  }

  /// Returns false if all of these are planned or would exceed the work of the search.
  bool plan_first(std::span<const LayoutCandidate> layouts) {
    for (const LayoutCandidate& each : layouts) {
      if (each.is_planned()) continue;
      result_.is_exhausted = result_.is_exhausted || !can_plan(each.layout);
      if (!can_plan(each.layout)) continue;
      (void)planned(each.layout);
      return true;
    }
    return false;
  }

  /// Plans what leads in the end, also if the search was interrupted, so that what is written has been planned, and
  /// then the layouts around it that estimates cannot tell from it.
  void plan_winner() {
    while (true) {
      const std::vector<LayoutCandidate> known = known_.all_with_margins();
      const std::vector<LayoutCandidate> winner = first_distinct(order_of(known), 1);
      if (winner.empty()) return;
      if (winner[0].is_planned() ? !plan_next_to(winner[0]) : !plan_with_reserve(winner[0].layout)) return;
    }
  }

  /// Returns false if the work that is left for the winner does not suffice.
  bool plan_with_reserve(const Layout& layout) {
    if (!can_plan(layout, 1 + work_for_winner)) return false;
    (void)planned(layout);
    return true;
  }

  /// Plans the best one of the layouts around the winner that are not planned. Returns false if there is none.
  bool plan_next_to(const LayoutCandidate& winner) {
    constexpr double max_loss = 1.01;
    std::vector<LayoutCandidate> close;
    for (const LayoutOption option : all_of<LayoutOption>) {
      if (option == LayoutOption::mesh) continue;
      std::vector<Layout> neighbours = neighbours_of(winner.layout, option);
      // The work of the head decides which stages are balanced.
      if (option == LayoutOption::over || option == LayoutOption::logits) add_changes(neighbours, LayoutOption::cut);
      for (const Layout& layout : neighbours) {
        if (stops()) return false;
        const MaybeCandidate each = estimated(layout);
        if (each && !each->is_planned() && each->fits && each->figures.seconds <= max_loss * winner.figures.seconds)
          close.push_back(*each);
      }
    }
    return !close.empty() && plan_with_reserve(ranked(close)[0].layout);
  }

  void gather() {
    const std::vector<LayoutCandidate> all = ranked(known_.all_with_margins());
    if (result_.written && !result_.written->is_planned()) {
      const auto is_written = [](const LayoutCandidate& each) { return each.distance_from_written == 0; };
      if (const auto found = std::ranges::find_if(all, is_written); found != all.end()) result_.written = *found;
    }
    result_.estimated = known_.estimates_count();
    result_.planned = known_.plans_count();
    for (const LayoutCandidate& each : all) {
      const bool is_equal = has_equal(result_.best, each);
      if (!each.fits || (result_.best.size() == max_best && !is_equal)) break;
      if (!accept_or_refuse(each)) continue;
      result_.has_equal_layouts = result_.has_equal_layouts || is_equal;
      if (!is_equal) result_.best.push_back(each);
    }
    const auto is_refused = [this](const LayoutCandidate& each) { return !accept_or_refuse(each); };
    do result_.front = front_of(ranked(known_.all_with_margins()));
    while (std::ranges::any_of(result_.front, is_refused));
    if (result_.front.empty()) space_.refuse_all(known_.refusals());
    const std::vector<LayoutCandidate> plans = known_.plans();
    result_.smallest = plans.empty() ? result_.front.back() : front_of(plans).back();
    gather_changes(all);
    result_.layouts = known_.all_with_margins();  // without those that the checks have refused by now
  }

  /// Whether the experiment's checks accept the layout, which a plan of it has shown; else the layout is refused.
  bool accept_or_refuse(const LayoutCandidate& candidate) {
    if (candidate.is_planned()) return true;
    try {
      check(space_.experiment(candidate.layout));
      return true;
    } catch (const InputError& error) {
      known_.refuse(candidate.layout, error.what());
      return false;
    }
  }

  /// `all`: best first.
  void gather_changes(const std::vector<LayoutCandidate>& all) {
    if (!result_.written) return;
    for (const LayoutOption option : all_of<LayoutOption>) {
      std::set<std::string> names;
      for (const Layout& layout : space_.neighbours(space_.written(), option)) names.insert(to_string(layout));
      const auto found = std::find_if(all.begin(), all.end(), [&](const LayoutCandidate& each) {
        return each.fits && names.contains(to_string(each.layout)) && accept_or_refuse(each);
      });
      if (found != all.end()) result_.changes.push_back({option, *found});
    }
  }

  const Experiment& written_;
  const LayoutSpace& space_;
  const LayoutSearchOptions& options_;
  const bool has_budget_;
  const double max_work_;
  LayoutPlanner planner_;
  LayoutEstimator estimator_;
  KnownLayouts known_;
  std::set<std::string> explored_;
  MaybeCandidate best_{};  // of the plans, or the first estimate
  double work_ = 0;        // of all plans
  LayoutSearchResult result_;
};

}  // namespace

LayoutSearchResult search_layouts(const Experiment& written, const LayoutSpace& space,
                                  const std::shared_ptr<const Dataset>& dataset, const LayoutSearchOptions& options) {
  return Search(written, space, dataset, options).run();
}

}  // namespace heddle

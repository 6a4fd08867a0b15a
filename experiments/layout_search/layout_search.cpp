#include "experiments/layout_search/layout_search.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <span>

#include "experiments/training/experiment_checks.h"
#include "framework/error.h"

namespace heddle {

namespace {

constexpr std::size_t max_best = 10;
/// Descents from estimates begin at so many layouts.
constexpr std::size_t max_starts = 6;
/// A change is planned unless its estimate is worse than that of the layout before by more than this factor.
constexpr double max_estimated_loss = 1.25;

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
        planner_(dataset),
        estimator_(space, planner_.plan_serially(written)) {}

  LayoutSearchResult run() {
    result_.considered = space_.size();
    result_.bound = bound_seconds(written_, options_.ranks);
    result_.norm_groups = space_.fixed_norm_groups();
    plan_written();
    if (!plan_all()) {
      estimate_starts();
      plan_promising();
    }
    gather();
    return std::move(result_);
  }

 private:
  bool stops() {
    result_.is_interrupted = result_.is_interrupted || (has_found_ && options_.is_interrupted());
    return result_.is_interrupted;
  }

  /// The layers that all ranks compute in the two steps of a plan.
  double work_of(const MeshConfig& mesh, std::int64_t micro_batches) const {
    constexpr std::int64_t of_messages = 4;  // which take as long as so many layers
    return static_cast<double>(mesh.dp * mesh.tp * micro_batches *
                               (static_cast<std::int64_t>(space_.applications()) + of_messages * mesh.pp));
  }
  double work_of(const Layout& layout) const { return work_of(layout.mesh, layout.micro_batches); }
  /// One that cannot be simulated within the bound is never planned, and the last one may pass the bound.
  bool can_plan(const Layout& layout) const {
    return work_ < options_.max_work && work_of(layout) <= options_.max_work;
  }

  WeighedLayout weighed(const Layout& layout, const LayoutFigures& figures) const {
    const bool fits = written_.memory_budget == 0 || figures.bytes <= written_.memory_budget;
    return {layout, figures, fits};
  }

  template <class Weigh>
  const Weighed& remembered(std::map<std::string, Weighed>& known, const Layout& layout, const Weigh& weigh) {
    const auto [entry, is_new] = known.try_emplace(to_string(layout));
    if (!is_new) return entry->second;
    try {
      entry->second = weighed(layout, weigh());
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
    return remembered(estimates_, layout, [&] { return estimator_.estimate(layout); });
  }
  const Weighed& planned(const Layout& layout) {
    return remembered(plans_, layout, [&] {
      work_ += work_of(layout);
      const LayoutFigures figures = planner_.plan(space_.experiment(layout));
      if (weighed(layout, figures).fits)
        best_seconds_ = std::min(best_seconds_.value_or(figures.seconds), figures.seconds);
      return figures;
    });
  }

  /// The order of preference: what fits by time, and then what does not fit by memory.
  static bool is_better(const WeighedLayout& a, const WeighedLayout& b, Goal goal = Goal::seconds) {
    if (goal == Goal::seconds && a.fits != b.fits) return a.fits;
    const bool by_bytes = goal == Goal::bytes || !a.fits;
    const auto of = [by_bytes](const WeighedLayout& each) {
      const auto bytes = static_cast<double>(each.figures.bytes);
      return by_bytes ? std::pair(bytes, each.figures.seconds) : std::pair(each.figures.seconds, bytes);
    };
    return of(a) < of(b);
  }

  /// Best first.
  static std::vector<WeighedLayout> ranked(std::vector<WeighedLayout> layouts) {
    std::sort(layouts.begin(), layouts.end(), [](const auto& a, const auto& b) { return is_better(a, b); });
    return layouts;
  }

  void plan_written() {
    if (work_of(written_.mesh, written_.train.micro_batches) > options_.max_work) return;
    result_.written = weighed(space_.written(), planner_.plan(written_));
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
    for (const Layout& layout : space_.starts()) {
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
    starts = ranked(std::move(starts));
    // The best of each mesh, on which the other options depend most.
    std::set<std::string> meshes;
    for (const WeighedLayout& start : starts) {
      if (meshes.size() == max_starts) break;
      if (meshes.insert(value_of(start.layout, LayoutOption::mesh)).second) improve(start, Goal::seconds);
    }
    improve(*std::min_element(starts.begin(), starts.end(),
                              [](const auto& a, const auto& b) { return is_better(a, b, Goal::bytes); }),
            Goal::bytes);
  }

  void plan_promising() {
    plan_changes_of_written();
    const std::vector<WeighedLayout> finalists = ranked(known_in(estimates_));
    for (const WeighedLayout& finalist : front_of(finalists))
      if (!stops() && can_plan(finalist.layout) && work_ < options_.max_work / 3) (void)planned(finalist.layout);
    for (const WeighedLayout& finalist : finalists)
      if (!stops() && can_plan(finalist.layout) && work_ < options_.max_work / 2) (void)planned(finalist.layout);
    const auto weigh = [this](const Layout& before, const Layout& layout) -> Weighed {
      if (!is_promising(before, layout) || !can_plan(layout)) return {};
      return planned(layout);
    };
    const std::vector<WeighedLayout> starts = ranked(known_in(plans_));
    for (std::size_t i = 0; i < std::min(max_starts, starts.size()); ++i)
      descend(starts[i], Goal::seconds, all_of<LayoutOption>, weigh);
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
        if (!stops() && can_plan(changed[i].layout)) (void)planned(changed[i].layout);
    }
  }

  bool is_promising(const Layout& before, const Layout& layout) {
    const Weighed& from = estimated(before);
    const Weighed& to = estimated(layout);
    if (!from || !to) return false;
    const bool is_slower = to->figures.seconds > max_estimated_loss * from->figures.seconds;
    const bool is_larger =
        static_cast<double>(to->figures.bytes) >
        max_estimated_loss * static_cast<double>(std::max(from->figures.bytes, written_.memory_budget));
    return !is_slower && !(written_.memory_budget > 0 && is_larger);
  }

  static std::vector<WeighedLayout> known_in(const std::map<std::string, Weighed>& known) {
    std::vector<WeighedLayout> all;
    for (const auto& [name, layout] : known)
      if (layout) all.push_back(*layout);
    return all;
  }

  /// Those than which none is both faster and smaller, from the fastest on.
  static std::vector<WeighedLayout> front_of(std::vector<WeighedLayout> all) {
    std::sort(all.begin(), all.end(), [](const WeighedLayout& a, const WeighedLayout& b) {
      return std::pair(a.figures.seconds, a.figures.bytes) < std::pair(b.figures.seconds, b.figures.bytes);
    });
    std::vector<WeighedLayout> front;
    for (const WeighedLayout& each : all)
      if (front.empty() || each.figures.bytes < front.back().figures.bytes) front.push_back(each);
    return front;
  }

  void gather() {
    std::vector<WeighedLayout> all = known_in(plans_);
    if (all.empty()) all = checked_estimates();
    if (all.empty()) space_.refuse_all(refusals_);
    result_.estimated = estimates_.size();
    result_.planned = plans_.size();
    result_.front = front_of(all);
    result_.smallest = result_.front.back();
    all = ranked(std::move(all));
    for (const WeighedLayout& each : all)
      if (each.fits && result_.best.size() < max_best) result_.best.push_back(each);
    gather_changes(all);
  }

  /// The best estimates, of layouts that the experiment's checks accept.
  std::vector<WeighedLayout> checked_estimates() {
    std::vector<WeighedLayout> found;
    for (const WeighedLayout& estimate : ranked(known_in(estimates_))) {
      if (found.size() == max_best) break;
      try {
        check(space_.experiment(estimate.layout));
        found.push_back(estimate);
      } catch (const InputError& error) {
        refuse(estimate.layout, error);
      }
    }
    return found;
  }

  /// `all`: best first.
  void gather_changes(const std::vector<WeighedLayout>& all) {
    for (const LayoutOption option : all_of<LayoutOption>) {
      std::vector<std::string> names;
      for (const Layout& layout : space_.changes(space_.written(), option)) names.push_back(to_string(layout));
      const auto found = std::find_if(all.begin(), all.end(), [&](const WeighedLayout& each) {
        return each.fits && std::find(names.begin(), names.end(), to_string(each.layout)) != names.end();
      });
      if (found != all.end()) result_.changes.push_back({option, *found});
    }
  }

  const Experiment& written_;
  const LayoutSpace& space_;
  const LayoutSearchOptions& options_;
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

// What the options of a layout may be (LayoutSpace).
#include <algorithm>

#include "experiments/layout_search/layout_space.h"
#include "experiments/training/planning/run_plan.h"
#include "layers/head/head_checks.h"
#include "parallel/pipeline/schedules.h"

namespace heddle {

namespace {

/// The axes of a set along which the mesh has several ranks.
AxisSet effective(AxisSet over, const MeshConfig& mesh) {
  return mesh_of(mesh).larger_than_one(over);
}

template <class T>
void put_first(std::vector<T>& values, const T& value) {
  std::stable_partition(values.begin(), values.end(), [&](const T& each) { return each == value; });
}

}  // namespace

std::optional<std::int64_t> LayoutSpace::fixed_norm_groups() const {
  const std::int64_t groups = model_.norm_groups(written_.mesh.dp, written_.micro_batches);
  if (groups == 0 || allowed_.contains(AllowedChange::norm_groups)) return {};
  return groups;
}

std::vector<std::int64_t> LayoutSpace::micro_batches_of(const MeshConfig& mesh) const {
  const std::optional<std::int64_t> groups = fixed_norm_groups();
  std::vector<std::int64_t> found;
  for (const std::int64_t count : micro_batches_) {
    if (count > experiment_.train.batch / mesh.dp) continue;
    if (groups && model_.norm_groups(mesh.dp, count) != *groups) continue;
    found.push_back(count);
  }
  return found;
}

const std::vector<LayoutSpace::Scheduled>& LayoutSpace::schedules_of(std::int64_t pp,
                                                                     std::int64_t micro_batches) const {
  const auto known = schedules_.find({pp, micro_batches});
  if (known != schedules_.end()) return known->second;
  std::vector<Scheduled>& found = schedules_[{pp, micro_batches}];
  if (pp == 1) {
    found.push_back({.name = "1f1b", .chunks = 1});
    return found;
  }
  const bool is_of_file =
      written_.schedule == "csv" && written_.mesh.pp == pp && written_.micro_batches == micro_batches;
  if (is_of_file) found.push_back({.name = written_.schedule, .chunks = 1});
  for (const ScheduleType& type : schedule_types())
    for (int chunks = type.min_chunks;
         type.copies == 1 && chunks <= std::min(type.max_chunks.value_or(default_max_chunks), default_max_chunks);
         ++chunks) {
      const ScheduleShape shape{
          .ranks = static_cast<int>(pp), .micro_batches = static_cast<int>(micro_batches), .chunks = chunks};
      if (pp * chunks <= static_cast<std::int64_t>(applications()) && takes_shape(type.name, shape))
        found.push_back({.name = std::string(type.name), .chunks = chunks});
    }
  return found;
}

std::vector<Recompute> LayoutSpace::recomputations() const {
  std::vector<Recompute> found{written_.recompute};
  if (allowed_.contains(AllowedChange::recompute))
    for (const Recompute mode : all_of<Recompute>)
      if (mode != written_.recompute) found.push_back(mode);
  return found;
}

std::vector<Offload> LayoutSpace::offloads_of(const Layout& layout) const {
  // A micro-batch is offloaded while others are computed.
  const bool has_others = layout.mesh.pp > 1 && layout.micro_batches * layout.chunks > 1;
  if (!has_others || !keeps_activations(layout.recompute)) return {Offload::never};
  std::vector<Offload> found{written_.offload};
  if (allowed_.contains(AllowedChange::offload) && layout.schedule != "csv")
    for (const Offload mode : all_of<Offload>)
      if (mode != written_.offload) found.push_back(mode);
  return found;
}

std::vector<ShardedState> LayoutSpace::shards_of(const MeshConfig& mesh) const {
  std::vector<ShardedState> found{ShardedState::none};
  if (mesh.dp * mesh.tp > 1) found.push_back(ShardedState::optimizer);
  put_first(found, written_.shard);
  return found;
}

std::vector<AxisSet> LayoutSpace::head_axes_of(const MeshConfig& mesh) const {
  if (experiment_.heads() > 1 || experiment_.head.is_replicated()) return {written_.over};
  std::vector<AxisSet> found{written_.over};
  for (unsigned index = every_axis.index(); index > 0; --index) {
    const AxisSet over = AxisSet::of_index(index);
    if (std::none_of(found.begin(), found.end(),
                     [&](AxisSet other) { return effective(other, mesh) == effective(over, mesh); }))
      found.push_back(over);
  }
  return found;
}

std::vector<Logits> LayoutSpace::logits() const {
  std::vector<Logits> found{written_.logits};
  const HeadConfig& head = experiment_.head;
  // The others hold all classes' logits on one rank, which these two forms of the head refuse.
  const bool holds_few = head.is_replicated() || head.samples();
  if (experiment_.heads() > 1 || head.stash) return found;
  for (const Logits each : all_of<Logits>)
    if (each != written_.logits && (!holds_few || each == Logits::sharded || each == Logits::fused))
      found.push_back(each);
  return found;
}

std::vector<CutChoice> LayoutSpace::cuts_of(const Layout& layout) const {
  if (layout.mesh.pp == 1 || layout.schedule == "csv") return {CutChoice::unchanged};
  const StagesConfig& stages = experiment_.model.stages;
  const std::int64_t count = layout.mesh.pp * layout.chunks;
  const bool is_fixed = names_stages_ || !stages.balance.empty();
  std::vector<CutChoice> found;
  // Whether named stages are as many shows in the checks of the experiment.
  const bool is_own_mesh = layout.mesh == written_.mesh && layout.chunks == written_.chunks;
  if (!is_fixed || static_cast<std::int64_t>(stages.balance.size()) == count || (names_stages_ && is_own_mesh))
    found.push_back(CutChoice::unchanged);
  if (is_fixed || stages.by) found.push_back(CutChoice::automatic);
  if (is_fixed || stages.by != BalanceBy::time) found.push_back(CutChoice::time);
  if (is_fixed || stages.by != BalanceBy::memory) found.push_back(CutChoice::memory);
  return found;
}

std::vector<PlacementChoice> LayoutSpace::placements_of(Layout layout) const {
  std::vector<PlacementChoice> found{PlacementChoice::unchanged};
  layout.placements = PlacementChoice::automatic;
  const auto& automatic = planned_placements(layout);
  if (automatic) found.push_back(layout.placements);
  layout.placements = PlacementChoice::smaller;
  if (const auto& smaller = planned_placements(layout); smaller && smaller != automatic)
    found.push_back(layout.placements);
  return found;
}

std::vector<HeadWork> LayoutSpace::head_works_of(const Layout& layout) const {
  if (experiment_.heads() > 1) return {written_.head_work};
  HeadConfig head = experiment_.head;
  head.logits = layout.logits;
  if (!effective(layout.over, layout.mesh).contains(Axis::pp) || head.is_replicated()) return {HeadWork::at_once};
  std::vector<HeadWork> found;
  for (const HeadWork work : all_of<HeadWork>)
    if (lacks_for_parts(head, work, experiment_.precision().wide()).empty()) found.push_back(work);
  put_first(found, written_.head_work);
  return found;
}

std::optional<Layout> LayoutSpace::fitted(Layout layout) const {
  const auto has = [](const auto& values, const auto& value) {
    return std::find(values.begin(), values.end(), value) != values.end();
  };
  const std::vector<std::int64_t> micro_batches = micro_batches_of(layout.mesh);
  if (micro_batches.empty()) return {};
  if (!has(micro_batches, layout.micro_batches)) layout.micro_batches = micro_batches.front();
  const std::vector<Scheduled>& schedules = schedules_of(layout.mesh.pp, layout.micro_batches);
  if (schedules.empty()) return {};
  const auto is_this = [&](const Scheduled& each) {
    return each.name == layout.schedule && each.chunks == layout.chunks;
  };
  if (std::none_of(schedules.begin(), schedules.end(), is_this)) {
    const auto usual =
        std::find_if(schedules.begin(), schedules.end(), [](const Scheduled& each) { return each.name == "1f1b"; });
    const Scheduled& instead = usual == schedules.end() ? schedules.front() : *usual;
    layout.schedule = instead.name;
    layout.chunks = instead.chunks;
  }
  if (const auto offloads = offloads_of(layout); !has(offloads, layout.offload)) layout.offload = offloads.front();
  if (const auto shards = shards_of(layout.mesh); !has(shards, layout.shard)) layout.shard = shards.front();
  const std::vector<AxisSet> axes = head_axes_of(layout.mesh);
  const auto over = std::find_if(axes.begin(), axes.end(), [&](AxisSet each) {
    return effective(each, layout.mesh) == effective(layout.over, layout.mesh);
  });
  layout.over = over == axes.end() ? axes.front() : *over;
  if (const auto works = head_works_of(layout); !has(works, layout.head_work)) layout.head_work = works.front();
  if (const auto cuts = cuts_of(layout); !has(cuts, layout.cut)) layout.cut = cuts.front();
  if (layout.placements != PlacementChoice::unchanged)
    if (const auto choices = placements_of(layout); !has(choices, layout.placements))
      layout.placements = choices.back();
  return layout;
}

}  // namespace heddle

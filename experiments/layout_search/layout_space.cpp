#include "experiments/layout_search/layout_space.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "experiments/training/planning/fastest_placements.h"
#include "experiments/training/planning/model_layout.h"
#include "experiments/training/planning/run_plan.h"
#include "framework/description/text.h"
#include "framework/error.h"
#include "parallel/pipeline/schedules.h"

namespace heddle {

namespace {

std::vector<std::int64_t> divisors_of(std::int64_t number) {
  std::set<std::int64_t> found;
  for (std::int64_t divisor = 1; divisor <= number / divisor; ++divisor)
    if (number % divisor == 0) found.insert({divisor, number / divisor});
  return {found.begin(), found.end()};
}

}  // namespace

LayoutSpace::LayoutSpace(const Experiment& written, int ranks, const AllowedChanges& allowed)
    : experiment_(written), model_(model_of(written, image_shape(written.data))), allowed_(allowed), ranks_(ranks) {
  if (written.train.forward_only)
    fail<InputError>("train.forward_only: expected false: a search compares training steps");
  // The sample of classes must not depend on the number of the head's ranks.
  for (std::size_t set = 0; set < written.heads(); ++set)
    if (HeadConfig& head = experiment_.head_of(set); head.samples())
      head.sample.shards = head.sample.shards_over(mesh_of(written).size(head.class_axes()));
  for (const ModelSpec::Application& application : model_.applications())
    names_stages_ = names_stages_ || application.stage.has_value();
  written_ = {.mesh = written.mesh,
              .schedule = written.pipeline.schedule,
              .chunks = written.mesh.pp > 1 && written.pipeline.schedule != "csv" ? shape_of(written).chunks : 1,
              .micro_batches = written.train.micro_batches,
              .recompute = written.pipeline.recompute,
              .offload = written.mesh.pp > 1 ? written.pipeline.offload : Offload::never,
              .shard = written.train.shard,
              .over = written.head.over,
              .logits = written.head.logits,
              .head_work = written.pipeline.head_work};
  if (allowed.contains(AllowedChange::micro_batches)) micro_batches_ = divisors_of(written.train.batch);
  std::erase_if(micro_batches_,
                [&](std::int64_t count) { return count == written_.micro_batches || count > max_micro_batches; });
  micro_batches_.insert(micro_batches_.begin(), written_.micro_batches);
  add_meshes();
  add_starts();
}

void LayoutSpace::add_meshes() {
  for (std::int64_t tp = 1; tp <= ranks_; ++tp)
    for (std::int64_t pp = 1; ranks_ % tp == 0 && pp <= ranks_ / tp; ++pp) {
      if (ranks_ / tp % pp != 0) continue;
      const MeshConfig mesh{.dp = ranks_ / tp / pp, .pp = pp, .tp = tp};
      if (const std::string why = refusal(mesh); why.empty())
        meshes_.push_back(mesh);
      else
        refusals_[to_string(mesh_of(mesh))] = why;
    }
  if (meshes_.empty()) refuse_all({});
}

void LayoutSpace::refuse_all(const std::map<std::string, std::string>& reasons) const {
  std::map<std::string, std::string> all = refusals_;
  all.insert(reasons.begin(), reasons.end());
  std::string text;
  for (const auto& [mesh, why] : all) text += fmt::format("\n  {}: {}", mesh, why);
  fail<InputError>("no mesh of {} trains {}:{}", counted(ranks_, "rank", "ranks"), experiment_.name, text);
}

std::string LayoutSpace::refusal(const MeshConfig& mesh) const {
  const TrainConfig& train = experiment_.train;
  if (mesh.pp > static_cast<std::int64_t>(applications()))
    return fmt::format("the model has {} layers, fewer than stages", applications());
  const std::vector<std::int64_t> micro_batches = micro_batches_of(mesh);
  const std::int64_t min_count = allowed_.contains(AllowedChange::micro_batches) ? 1 : train.micro_batches;
  if (mesh.dp * min_count > train.batch)
    return fmt::format("train.batch = {} has fewer samples than parts, dp {} x {}", train.batch, mesh.dp,
                       counted(min_count, "micro-batch", "micro-batches"));
  if (micro_batches.empty())
    return fmt::format("batch norms would not normalise {} parts of the batch, as in the file (--allow norm_groups)",
                       fixed_norm_groups().value_or(0));
  if (schedules_of(mesh.pp, micro_batches.front()).empty())
    return fmt::format("no schedule takes {} stages and {} micro-batches", mesh.pp, micro_batches.front());
  return {};
}

const std::optional<std::vector<PlacementConfig>>& LayoutSpace::planned_placements(const Layout& layout) const {
  // The budget that the head leaves is that of a head which all ranks share, and train.shard is as written.
  Layout placed = written_;
  placed.mesh = layout.mesh;
  placed.micro_batches = layout.micro_batches;
  placed.over = head_axes_of(layout.mesh).size() > 1 ? every_axis : written_.over;
  placed.placements = layout.placements;
  const std::string key = to_string(placed);
  const auto known = placements_.find(key);
  if (known != placements_.end()) return known->second;
  std::optional<std::vector<PlacementConfig>>& found = placements_[key];
  const bool is_smaller = layout.placements == PlacementChoice::smaller;
  if (layout.mesh.dp * layout.mesh.tp == 1 || (is_smaller && experiment_.min_budget(ranks_) == 0)) return found;
  const auto shares_samples = [](const PlacementConfig& layer) {
    return layer.parallel == Parallel::data && layer.other.value_or(Parallel::data) == Parallel::data;
  };
  for (const double share : is_smaller ? std::vector{0.5, 0.65, 0.8, 0.9} : std::vector{1.0}) {
    Experiment experiment = with_options(placed);
    const auto reduce = [&](std::int64_t& budget) { budget = std::llround(share * static_cast<double>(budget)); };
    reduce(experiment.memory_budget);
    std::ranges::for_each(experiment.ranks.memory_budget, reduce);
    try {
      std::vector<PlacementConfig> fastest = fastest_placements(experiment, quick_planning);
      if (!std::ranges::all_of(fastest, shares_samples)) found = std::move(fastest);
      break;
    } catch (const InputError&) {
      continue;  // none fits into this share of the budget
    }
  }
  return found;
}

Experiment LayoutSpace::with_options(const Layout& layout) const {
  Experiment experiment = experiment_;
  experiment.mesh = layout.mesh;
  experiment.train.micro_batches = layout.micro_batches;
  experiment.train.shard = layout.shard;
  experiment.pipeline.recompute = layout.recompute;
  experiment.pipeline.offload = layout.offload;
  if (experiment.pipeline.schedule != layout.schedule || layout.schedule != "csv") {
    experiment.pipeline.schedule = layout.schedule;
    experiment.pipeline.file.clear();
    experiment.pipeline.chunks = layout.mesh.pp > 1 ? layout.chunks : 0;
  }
  if (experiment.heads() == 1) {
    experiment.head.over = layout.over;
    experiment.head.logits = layout.logits;
    experiment.pipeline.head_work = layout.head_work;
  }
  if (layout.cut == CutChoice::unchanged) return experiment;
  experiment.model.stages = {};
  if (layout.cut == CutChoice::time) experiment.model.stages.by = BalanceBy::time;
  if (layout.cut == CutChoice::memory) experiment.model.stages.by = BalanceBy::memory;
  for (LayerConfig& layer : experiment.model.layers) layer.stage.reset();
  return experiment;
}

Experiment LayoutSpace::experiment(const Layout& layout) const {
  Experiment experiment = with_options(layout);
  if (layout.placements == PlacementChoice::unchanged) return experiment;
  const std::optional<std::vector<PlacementConfig>>& placements = planned_placements(layout);
  if (!placements) fail<InputError>("the planner finds no placements for {}", to_string(layout));
  experiment.model.placements = *placements;
  return experiment;
}

std::vector<Layout> LayoutSpace::neighbours(const Layout& from, LayoutOption option) const {
  std::vector<Layout> changed;
  const std::string before = value_of(from, option);
  const auto add_fitted = [&](const Layout& layout) {
    const std::optional<Layout> possible = fitted(layout);
    if (possible && value_of(*possible, option) != before) changed.push_back(*possible);
  };
  const auto add = [&](auto Layout::*member, const auto& value) {
    Layout layout = from;
    layout.*member = value;
    add_fitted(layout);
  };
  switch (option) {
    case LayoutOption::mesh:
      for (const MeshConfig& mesh : meshes_) add(&Layout::mesh, mesh);
      break;
    case LayoutOption::schedule:
      for (const Scheduled& schedule : schedules_of(from.mesh.pp, from.micro_batches)) {
        Layout layout = from;
        layout.schedule = schedule.name;
        layout.chunks = schedule.chunks;
        add_fitted(layout);
      }
      break;
    case LayoutOption::micro_batches:
      for (const std::int64_t count : micro_batches_of(from.mesh)) add(&Layout::micro_batches, count);
      break;
    case LayoutOption::recompute:
      for (const Recompute mode : recomputations()) add(&Layout::recompute, mode);
      break;
    case LayoutOption::offload:
      for (const Offload mode : offloads_of(from)) add(&Layout::offload, mode);
      break;
    case LayoutOption::shard:
      for (const ShardedState shard : shards_of(from.mesh)) add(&Layout::shard, shard);
      break;
    case LayoutOption::placements:
      for (const PlacementChoice choice : placements_of(from)) add(&Layout::placements, choice);
      break;
    case LayoutOption::cut:
      for (const CutChoice cut : cuts_of(from)) add(&Layout::cut, cut);
      break;
    case LayoutOption::over:
      for (const AxisSet over : head_axes_of(from.mesh)) add(&Layout::over, over);
      break;
    case LayoutOption::logits:
      for (const Logits each : logits()) add(&Layout::logits, each);
      break;
    case LayoutOption::head_work:
      for (const HeadWork work : head_works_of(from)) add(&Layout::head_work, work);
      break;
  }
  return changed;
}

void LayoutSpace::add_starts() {
  for (const MeshConfig& mesh : meshes_)
    for (const std::int64_t micro_batches : micro_batches_of(mesh))
      for (const Scheduled& schedule : schedules_of(mesh.pp, micro_batches))
        for (const Recompute recompute : recomputations()) {
          Layout layout = written_;
          layout.mesh = mesh;
          layout.micro_batches = micro_batches;
          layout.schedule = schedule.name;
          layout.chunks = schedule.chunks;
          layout.recompute = recompute;
          for (const Offload offload : offloads_of(layout)) {
            layout.offload = offload;
            if (const std::optional<Layout> possible = fitted(layout)) starts_.push_back(*possible);
          }
        }
}

std::vector<Layout> LayoutSpace::starts_of_one_schedule() const {
  std::vector<Layout> found;
  for (const MeshConfig& mesh : meshes_)
    for (const std::int64_t micro_batches : micro_batches_of(mesh)) {
      Layout layout = written_;
      layout.mesh = mesh;
      layout.micro_batches = micro_batches;
      layout.schedule = "1f1b";
      layout.chunks = 1;
      if (const std::optional<Layout> possible = fitted(layout)) found.push_back(*possible);
    }
  return found;
}

std::vector<Layout> LayoutSpace::all(std::size_t max_layouts) const {
  if (size() > max_layouts) return {};
  std::vector<Layout> found = starts_;
  for (const LayoutOption option : {LayoutOption::shard, LayoutOption::over, LayoutOption::logits,
                                    LayoutOption::head_work, LayoutOption::cut, LayoutOption::placements}) {
    const std::size_t before = found.size();
    for (std::size_t i = 0; i < before; ++i)
      for (const Layout& changed : neighbours(found[i], option)) found.push_back(changed);
  }
  return found;
}

std::size_t LayoutSpace::size() const {
  std::size_t count = 0;
  for (const Layout& start : starts_) {
    std::size_t heads = 0;
    Layout layout = start;
    for (const AxisSet over : head_axes_of(start.mesh))
      for (const Logits each : logits()) {
        layout.over = over;
        layout.logits = each;
        heads += head_works_of(layout).size();
      }
    const bool has_budget = experiment_.min_budget(ranks_) > 0;
    const std::size_t placements = start.mesh.dp * start.mesh.tp == 1 ? 1 : has_budget ? 3 : 2;
    count += shards_of(start.mesh).size() * heads * cuts_of(start).size() * placements;
  }
  return count;
}

}  // namespace heddle

// A layout: the part of an experiment that decides how its training is spread over ranks, and not what is trained.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "experiments/training/experiment.h"

namespace heddle {

/// What decides where the model is cut into stages. `automatic` is the profile's estimate of the layers' times, `time`
/// their measured times with the speeds of the ranks.
enum class CutChoice { unchanged, automatic, time, memory };
template <>
inline constexpr auto enum_names<CutChoice> = enum_table<CutChoice>({
    {CutChoice::unchanged, "unchanged"},
    {CutChoice::automatic, "automatic"},
    {CutChoice::time, "time"},
    {CutChoice::memory, "memory"},
});

/// The placements of the layers: the experiment's; `automatic`, the planner's (fastest_placements); or `smaller`, those
/// within a half of the budget or the next larger share into which any fit, because the planner does not count the
/// activations of several micro-batches.
enum class PlacementChoice { unchanged, automatic, smaller };
template <>
inline constexpr auto enum_names<PlacementChoice> = enum_table<PlacementChoice>({
    {PlacementChoice::unchanged, "unchanged"},
    {PlacementChoice::automatic, "automatic"},
    {PlacementChoice::smaller, "smaller"},
});

/// If there are several heads, each keeps its own `over` and `logits`.
struct Layout {
  MeshConfig mesh{};
  std::string schedule = "1f1b";
  std::int64_t chunks = 1;
  std::int64_t micro_batches = 1;
  Recompute recompute = Recompute::never;
  Offload offload = Offload::never;
  ShardedState shard = ShardedState::none;
  AxisSet over = every_axis;
  Logits logits = Logits::sharded;
  HeadWork head_work = HeadWork::at_once;
  CutChoice cut = CutChoice::unchanged;
  PlacementChoice placements = PlacementChoice::unchanged;
};

/// The parts of a layout that may be changed one at a time, under the experiment's keys.
enum class LayoutOption {
  mesh,
  schedule,
  micro_batches,
  recompute,
  offload,
  shard,
  placements,
  cut,
  over,
  logits,
  head_work
};
template <>
inline constexpr auto enum_names<LayoutOption> = enum_table<LayoutOption>({
    {LayoutOption::mesh, "mesh"},
    {LayoutOption::schedule, "pipeline.schedule"},
    {LayoutOption::micro_batches, "train.micro_batches"},
    {LayoutOption::recompute, "pipeline.recompute"},
    {LayoutOption::offload, "pipeline.offload"},
    {LayoutOption::shard, "train.shard"},
    {LayoutOption::placements, "model.placements"},
    {LayoutOption::cut, "model.stages"},
    {LayoutOption::over, "head.over"},
    {LayoutOption::logits, "head.logits"},
    {LayoutOption::head_work, "pipeline.head_work"},
});

/// An option's value in words: `dp 2 x pp 4`, `interleaved, v = 2` with v stages per rank.
std::string value_of(const Layout& layout, LayoutOption option);
/// In the order of LayoutOption.
using LayoutValues = std::array<std::string, enumerator_count<LayoutOption>()>;
LayoutValues values_of(const Layout& layout);
/// The number of options in which they differ.
int distance(const LayoutValues& a, const LayoutValues& b);
int distance(const Layout& a, const Layout& b);
/// All of them in one line, which is different for every layout.
std::string to_string(const Layout& layout);

}  // namespace heddle

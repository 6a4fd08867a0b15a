#include "experiments/program/schedule/picture.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/core.h>

namespace heddle {

namespace {

// Colours for the web that readers with colour-blindness tell apart, as in the timeline of a results folder.
constexpr std::array<ActionLook, 11> looks{{
    {ActionKind::forward, "forward", {75, 33}, {"#6fb1f2", "#2f7fd0"}},
    {ActionKind::backward, "backward", {114, 34}, {"#f0b45a", "#c9821b"}},
    {ActionKind::backward_input, "input part of backward", {80, 37}, {"#f4de8f", "#d3b13a"}},
    {ActionKind::backward_weight, "weight part of backward", {186, 142}, {"#7cc4a1", "#3c9468"}},
    {ActionKind::recompute, "recomputed forward", {216, 173}, {"#bcdcf8", "#8db9e0"}},
    {ActionKind::loss, "head and loss", {176, 133}, {"#dda3c4", "#b9669a"}},
    {ActionKind::loss_broadcast, "embeddings for the head", {218, 182}, {"#f3d6e6", "#d9a7c5"}},
    {ActionKind::loss_sums, "sums of the head", {176, 133}, {"#dda3c4", "#b9669a"}},
    {ActionKind::loss_gradient, "gradient of the head", {169, 126}, {"#c98bb4", "#9c4f82"}},
    {ActionKind::offload, "offload to the host", {250, 245}, {"#c9c9c9", "#9a9a9a"}},
    {ActionKind::load, "load from the host", {145, 103}, {"#b9b3d6", "#8a80b8"}},
}};

/// The greatest common divisor of two times, where less than `least` counts as rounding.
double common_divisor(double a, double b, double least) {
  while (b > least) {
    const double rest = a - b * std::round(a / b);
    a = b;
    b = std::abs(rest);
  }
  return a;
}

}  // namespace

const ActionLook& look_of(ActionKind kind) {
  return *std::find_if(looks.begin(), looks.end(), [kind](const ActionLook& look) { return look.kind == kind; });
}

std::vector<ActionLook> looks_in(const Timeline& timeline) {
  std::array<bool, enumerator_count<ActionKind>()> present{};
  for_each_timed(timeline, [&](const TimedAction& timed) {
    if (timed.end > timed.begin) present.at(static_cast<std::size_t>(timed.action.kind)) = true;
  });
  std::vector<ActionLook> found;
  for (const ActionLook& look : looks)
    if (present.at(static_cast<std::size_t>(look.kind))) found.push_back(look);
  return found;
}

bool draws_host_links(const Timeline& timeline) {
  return std::any_of(timeline.host_links.begin(), timeline.host_links.end(), [](const auto& row) {
    return std::any_of(row.begin(), row.end(), [](const TimedAction& timed) { return timed.end > timed.begin; });
  });
}

ChunkNumbers::ChunkNumbers(const Schedule& schedule) : schedule_(schedule) {
  std::map<int, int> stages;  // the number of each rank's stages so far
  for (int copy = 0; copy < schedule.copies(); ++copy)
    for (const int rank : schedule.ranks_of_copy(copy)) numbers_.push_back(stages[rank]++);
}

int ChunkNumbers::of(const Action& action) const {
  return numbers_[schedule_.stage_index(action.stage, action.micro_batch)];
}

bool ChunkNumbers::any() const {
  return std::any_of(numbers_.begin(), numbers_.end(), [](int number) { return number > 0; });
}

std::string plain_number(double value) {
  const double size = std::abs(value);
  if (size != 0 && (size < 0.01 || size >= 1e15)) return fmt::format("{:.4g}", value);
  std::string text = fmt::format("{:.4f}", value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

std::optional<double> unit_of_time(const Timeline& timeline) {
  const double whole = timeline.makespan();
  const double least = 1e-5 * whole;
  const double rounding = 1e-9 * whole;
  double unit = 0;
  bool is_too_short = false;
  for_each_timed(timeline, [&](const TimedAction& timed) {
    for (const double time : {timed.begin, timed.end}) {
      if (is_too_short) return;
      unit = common_divisor(std::max(time, unit), std::min(time, unit), rounding);
      is_too_short = unit > 0 && unit < least;
    }
  });
  return unit > 0 && !is_too_short ? std::optional(unit) : std::nullopt;
}

std::vector<std::vector<bool>> marks_of(const Timeline& timeline, const CriticalPath& path) {
  std::vector<std::vector<bool>> marks;
  for (const std::vector<TimedAction>& actions : timeline.ranks) marks.emplace_back(actions.size());
  for (const CriticalStep& step : path.steps)
    marks[static_cast<std::size_t>(step.rank)][static_cast<std::size_t>(step.index)] = true;
  return marks;
}

}  // namespace heddle

#include "experiments/program/schedule/critical_path_report.h"

#include <algorithm>
#include <numeric>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "experiments/program/schedule/picture.h"
#include "experiments/results/grid.h"
#include "framework/description/text.h"

namespace heddle {

namespace {

using OrderedJson = nlohmann::ordered_json;

double cost_of(const CriticalPathReport& report, const CostEffect& effect) {
  return report.costs.at(static_cast<std::size_t>(effect.kind));
}

double makespan_of(const CriticalPathReport& report) {
  return std::accumulate(report.path.time.begin(), report.path.time.end(), 0.0);
}

double share_of(const CriticalPathReport& report, const CostEffect& effect) {
  const double makespan = makespan_of(report);
  return makespan > 0 ? effect.time_on_path / makespan : 0;
}

std::int64_t messages_in(const CriticalPath& path) {
  return std::count_if(path.steps.begin(), path.steps.end(),
                       [](const CriticalStep& step) { return !step.messages.empty(); });
}

const TimedAction& timed_in(const Timeline& timeline, const CriticalStep& step) {
  return timeline.ranks[static_cast<std::size_t>(step.rank)][static_cast<std::size_t>(step.index)];
}

}  // namespace

std::string critical_path_table(const CriticalPathReport& report) {
  Grid grid({"cost", "now", "on the path", "share (%)", "gain per unit", "down to", "makespan then"});
  for (const CostEffect& effect : report.effects) {
    const double cost = cost_of(report, effect);
    const bool is_gain = effect.gain > 0;
    grid.add({std::string(name_of(effect.kind)), plain_number(cost), plain_number(effect.time_on_path),
              fmt::format("{:.2f}", 100 * share_of(report, effect)), plain_number(effect.gain / cost),
              is_gain ? plain_number(effect.until * cost) : "-", is_gain ? plain_number(effect.makespan_until) : "-"});
  }
  return fmt::format("critical path: {} and {}, marked *\n\n",
                     counted(static_cast<std::int64_t>(report.path.steps.size()), "action", "actions"),
                     counted(messages_in(report.path), "message", "messages")) +
         grid.to_text() +
         "(on the path: the time that the cost takes there; gain per unit: by how much the makespan falls if this "
         "cost\n"
         "alone falls by 1, down to the cost in the next column, below which another path is critical; with several\n"
         "critical paths, the one that has the least of the cost counts)\n";
}

OrderedJson critical_path_json(const CriticalPathReport& report, const Timeline& timeline) {
  OrderedJson costs = OrderedJson::array();
  for (const CostEffect& effect : report.effects) {
    const double cost = cost_of(report, effect);
    costs.push_back({{"cost", name_of(effect.kind)},
                     {"now", cost},
                     {"on_path", effect.time_on_path},
                     {"share", share_of(report, effect)},
                     {"gain_per_unit", effect.gain / cost},
                     {"down_to", effect.until * cost},
                     {"makespan_then", effect.makespan_until},
                     {"makespan_at_zero", effect.makespan_at_zero}});
  }
  OrderedJson steps = OrderedJson::array();
  for (std::size_t i = 0; i < report.path.steps.size(); ++i) {
    const CriticalStep& step = report.path.steps[i];
    const TimedAction& timed = timed_in(timeline, step);
    if (!step.messages.empty()) {
      const CriticalStep& sender = report.path.steps[i - 1];
      Action message = step.messages.back();
      message.kind = message.kind == ActionKind::forward ? ActionKind::send_forward : ActionKind::send_backward;
      steps.push_back({{"message", to_string(message)},
                       {"from", sender.rank},
                       {"to", step.rank},
                       {"begin", timed_in(timeline, sender).end},
                       {"end", timed.begin}});
    }
    steps.push_back(
        {{"action", to_string(timed.action)}, {"rank", step.rank}, {"begin", timed.begin}, {"end", timed.end}});
  }
  return {{"costs", costs}, {"steps", steps}};
}

}  // namespace heddle

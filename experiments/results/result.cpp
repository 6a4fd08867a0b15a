#include "experiments/results/result.h"

#include <algorithm>
#include <array>

namespace heddle {

std::optional<StepSeconds> step_seconds(const VariantResult& result) {
  std::vector<double> seconds;
  for (const StepRecord& record : result.steps)
    if (record.seconds > 0) seconds.push_back(record.seconds);
  if (seconds.empty()) return std::nullopt;
  if (seconds.size() > 1) seconds.erase(seconds.begin());
  std::sort(seconds.begin(), seconds.end());
  const std::size_t middle = seconds.size() / 2;
  const double median = seconds.size() % 2 == 1 ? seconds[middle] : (seconds[middle - 1] + seconds[middle]) / 2;
  return StepSeconds{.median = median, .minimum = seconds.front(), .maximum = seconds.back()};
}

std::optional<double> samples_per_second(const VariantResult& result) {
  const auto seconds = step_seconds(result);
  if (!seconds) return std::nullopt;
  return static_cast<double>(result.batch) / seconds->median;
}

int stages(const VariantResult& result) {
  int last = 0;
  for (const RankResult& rank : result.ranks)
    for (const auto& [axis, position] : rank.coordinates)
      if (axis == "pp") last = std::max(last, position);
  return last + 1;
}

std::int64_t steps_done(const VariantResult& result) {
  return result.steps.empty() ? result.first_step : result.steps.back().step + 1;
}

std::string_view name_of(VariantResult::Status status) {
  constexpr std::array<std::string_view, 3> names{"ok", "out_of_memory", "failed"};
  return names[static_cast<std::size_t>(status)];
}

}  // namespace heddle

#include "experiments/training/measurements/result.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>

namespace heddle {

namespace {

/// The positions in result.steps of those that this run has timed, without its first one if there are others, the
/// fastest first. The steps of a run that this one resumes may have had another mesh.
std::vector<std::size_t> timed_steps(const VariantResult& result) {
  std::vector<std::size_t> timed;
  for (std::size_t i = 0; i < result.steps.size(); ++i)
    if (result.steps[i].seconds > 0 && result.steps[i].step >= result.first_step) timed.push_back(i);
  if (timed.size() > 1 && result.steps[timed.front()].step == result.first_step) timed.erase(timed.begin());
  std::stable_sort(timed.begin(), timed.end(),
                   [&](std::size_t a, std::size_t b) { return result.steps[a].seconds < result.steps[b].seconds; });
  return timed;
}

bool is_naive_for(const VariantResult& variant, const VariantResult& result) {
  if (!variant.pipeline || variant.pipeline->schedule_name != "naive") return false;
  return variant.batch == result.batch && variant.pipeline->recompute == result.pipeline->recompute &&
         std::equal(variant.ranks.begin(), variant.ranks.end(), result.ranks.begin(), result.ranks.end(),
                    [](const RankResult& a, const RankResult& b) { return a.coordinates == b.coordinates; });
}

}  // namespace

void RankResult::add_busy_step(double seconds) {
  busy_in_step.push_back(seconds);
  if (busy_in_step.size() <= StepHistory::max_kept) return;
  busy_in_step.erase(busy_in_step.begin());
  ++first_busy_step;
}

std::optional<StepSeconds> step_seconds(const VariantResult& result) {
  std::vector<double> seconds;
  for (const std::size_t i : timed_steps(result)) seconds.push_back(result.steps[i].seconds);
  if (seconds.empty()) return std::nullopt;
  return step_seconds(seconds);
}

std::optional<double> samples_per_second(const VariantResult& result) {
  const auto seconds = step_seconds(result);
  if (!seconds) return std::nullopt;
  return static_cast<double>(result.batch) / seconds->median;
}

bool knows_when_busy(const VariantResult& result) {
  return result.device != "cuda";
}

std::vector<double> utilisation(const VariantResult& result) {
  if (!knows_when_busy(result)) return {};
  // The time for which a rank was busy in a step. Steps before a resumption belong to another run.
  const auto busy = [&](const RankResult& rank, std::size_t i) -> std::optional<double> {
    const std::int64_t index = result.steps[i].step - result.first_step - rank.first_busy_step;
    if (index < 0 || index >= std::ssize(rank.busy_in_step)) return std::nullopt;
    return rank.busy_in_step[static_cast<std::size_t>(index)];
  };
  std::vector<std::size_t> timed = timed_steps(result);
  std::erase_if(timed, [&](std::size_t i) {
    return !std::all_of(result.ranks.begin(), result.ranks.end(),
                        [&](const RankResult& rank) { return busy(rank, i); });
  });
  if (timed.empty()) return {};
  const std::size_t median = timed[timed.size() / 2];
  std::vector<double> shares;
  for (const RankResult& rank : result.ranks) shares.push_back(*busy(rank, median) / result.steps[median].seconds);
  return shares;
}

std::optional<double> bubble_fraction(const VariantResult& result) {
  if (!result.pipeline) return 0;
  const std::vector<double> shares = utilisation(result);
  if (shares.empty()) return std::nullopt;
  return 1 - std::accumulate(shares.begin(), shares.end(), 0.0) / static_cast<double>(shares.size());
}

std::int64_t steps_done(const VariantResult& result) {
  return result.steps.empty() ? result.first_step : result.steps.back().step + 1;
}

std::string_view name_of(VariantResult::Status status) {
  constexpr std::array<std::string_view, 6> names{"ok",           "out_of_memory", "failed",
                                                  "broken_image", "interrupted",   "not_saved"};
  return names[static_cast<std::size_t>(status)];
}

std::optional<double> speedup(const VariantResult& result, const VariantResult& over) {
  const auto own = samples_per_second(result);
  const auto others = samples_per_second(over);
  if (!own || !others) return std::nullopt;
  return *own / *others;
}

const VariantResult* naive_of(const RunResult& run, const VariantResult& result) {
  if (!result.pipeline) return nullptr;
  const VariantResult* naive = nullptr;
  bool is_past = false;
  for (const VariantResult& variant : run.variants) {
    if (is_past && naive != nullptr) break;
    if (is_naive_for(variant, result)) naive = &variant;
    is_past = is_past || &variant == &result;
  }
  return naive;
}

std::optional<double> share_of_ideal(const RunResult& run, const VariantResult& result) {
  const VariantResult* const naive = naive_of(run, result);
  if (naive == nullptr) return std::nullopt;
  const auto measured = speedup(result, *naive);
  if (!measured) return std::nullopt;
  return *measured / result.pipeline->ideal_speedup;
}

}  // namespace heddle

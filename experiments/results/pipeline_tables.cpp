#include "experiments/results/pipeline_tables.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include "experiments/results/grid.h"
#include "experiments/results/table.h"
#include "experiments/results/units.h"
#include "framework/description/text.h"

namespace heddle {

namespace {

std::string number(double value) {
  return fmt::format("{:.4g}", value);
}

/// The position along pp; nothing for a rank that is not the first along the other axes.
std::optional<std::size_t> pipeline_position(const RankResult& rank) {
  std::optional<std::size_t> position;
  for (const auto& [axis, at] : rank.coordinates) {
    if (axis == "pp")
      position = static_cast<std::size_t>(at);
    else if (at != 0)
      return {};
  }
  return position;
}

/// How many ranks along dp share a micro-batch.
std::int64_t parallel_batches(const VariantResult& variant) {
  int most = 0;
  for (const RankResult& rank : variant.ranks)
    for (const auto& [axis, at] : rank.coordinates)
      if (axis == "dp") most = std::max(most, at);
  return most + 1;
}

/// `1.6 % apart` relative to the second, or `x 4.9`.
std::string difference_text(double predicted, double seconds) {
  const double factor = std::max(predicted, seconds) / std::min(predicted, seconds);
  if (factor >= 2) return fmt::format("x {:.1f}", factor);
  return fmt::format("{:.1f} % apart", 100 * std::abs(predicted - seconds) / seconds);
}

}  // namespace

std::string pipelines_table(const RunResult& run) {
  Grid grid({"variant", "p", "m", "speedup", "ideal", "share of ideal", "bubble"});
  bool is_pipeline = false;
  for (const VariantResult& variant : run.variants) {
    if (!variant.pipeline) continue;
    is_pipeline = true;
    const PipelineResult& pipeline = *variant.pipeline;
    const VariantResult* const naive = naive_of(run, variant);
    const auto gained = naive == nullptr ? std::nullopt : speedup(variant, *naive);
    const auto share = share_of_ideal(run, variant);
    const auto bubble = bubble_fraction(variant);
    grid.add({variant.name, fmt::format("{}", pipeline.schedule.size()), fmt::format("{}", variant.micro_batches),
              gained ? significant(*gained) : absent, significant(pipeline.ideal_speedup),
              share ? fmt::format("{:.3f}", *share) : absent, bubble ? fmt::format("{:.3f}", *bubble) : absent});
  }
  return is_pipeline ? grid.to_text() : "";
}

std::string kept_table(const RunResult& run) {
  constexpr std::size_t max_listed = 16;  // more are in the summary
  std::vector<std::vector<std::string>> rows;
  Column activations;
  Column per_sample;
  for (const VariantResult& variant : run.variants) {
    if (!variant.pipeline || variant.pipeline->kept_micro_batches.size() > max_listed) continue;
    const PipelineResult& pipeline = *variant.pipeline;
    const auto samples =
        static_cast<double>(variant.batch) / static_cast<double>(variant.micro_batches * parallel_batches(variant));
    for (const RankResult& rank : variant.ranks) {
      const auto at = pipeline_position(rank);
      if (!at || *at >= pipeline.kept_inputs.size()) continue;
      const double kept = pipeline.kept_micro_batches[*at] * samples;
      const double inputs = pipeline.kept_inputs[*at];
      const auto bytes = static_cast<double>(rank.peak[Category::activations]);
      activations.add(bytes);
      per_sample.add(pipeline.recompute == "never" && bytes > 0 ? std::optional(bytes / kept) : std::nullopt);
      rows.push_back({variant.name, fmt::format("{}", rank.rank), number(pipeline.kept_micro_batches[*at]),
                      inputs > 0 ? number(inputs) : absent, number(kept)});
    }
  }
  if (rows.empty()) return "";
  const Unit held = unit_of_bytes(activations.values());
  const Unit one = unit_of_bytes(per_sample.values());
  Grid grid({"variant", "rank", "micro-batches", "inputs", "samples", heading("activations", held),
             heading("per sample", one)});
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].push_back(activations.cell(i, held));
    rows[i].push_back(per_sample.cell(i, one));
    grid.add(std::move(rows[i]));
  }
  return grid.to_text();
}

std::string offloaded_table(const RunResult& run) {
  std::vector<std::pair<const VariantResult*, const RankResult*>> fullest;
  std::vector<double> bytes;
  for (const VariantResult& variant : run.variants) {
    const auto rank =
        std::max_element(variant.ranks.begin(), variant.ranks.end(),
                         [](const RankResult& a, const RankResult& b) { return a.peak_offloaded < b.peak_offloaded; });
    if (rank == variant.ranks.end() || rank->peak_offloaded == 0) continue;
    fullest.emplace_back(&variant, &*rank);
    bytes.push_back(static_cast<double>(rank->peak_offloaded));
  }
  if (fullest.empty()) return "";
  const Unit held = unit_of_bytes(bytes);
  Grid grid({"variant", "rank", heading("offloaded", held)});
  for (const auto& [variant, rank] : fullest)
    grid.add({variant->name, fmt::format("{}", rank->rank), in_unit(static_cast<double>(rank->peak_offloaded), held)});
  return grid.to_text();
}

std::string outputs_table(const RunResult& run) {
  Grid grid({"variant", "rank", "output of a micro-batch", "busy (%)"});
  bool is_forward = false;
  for (const VariantResult& variant : run.variants) {
    if (!variant.pipeline || !variant.pipeline->recompute.empty()) continue;
    const std::vector<double> shares = utilisation(variant);
    if (shares.empty() && knows_when_busy(variant)) continue;
    for (std::size_t i = 0; i < variant.ranks.size(); ++i) {
      for (const auto& [axis, position] : variant.ranks[i].coordinates) {
        if (axis != "pp" || static_cast<std::size_t>(position) >= variant.pipeline->outputs.size()) continue;
        is_forward = true;
        grid.add({variant.name, fmt::format("{}", variant.ranks[i].rank),
                  variant.pipeline->outputs[static_cast<std::size_t>(position)],
                  i < shares.size() ? fmt::format("{:.1f}", 100 * shares[i]) : std::string(absent)});
      }
    }
  }
  return is_forward ? grid.to_text() : "";
}

std::string predictions_text(const RunResult& run) {
  std::string text;
  for (const VariantResult& variant : run.variants) {
    const auto seconds = step_seconds(variant);
    if (!seconds || !variant.predicted_seconds) continue;
    const double predicted = variant.predicted_seconds->median;
    text += fmt::format("{}: predicted {}, {} {} ({})\n", shorten(variant.name, table_width / 3),
                        format_seconds(predicted), variant.device == "plan" ? "modelled" : "measured",
                        format_seconds(seconds->median), difference_text(predicted, seconds->median));
  }
  return text;
}

}  // namespace heddle

#include "experiments/results/accuracy_tables.h"

#include <set>

#include <fmt/core.h>

#include "experiments/results/grid.h"
#include "experiments/results/units.h"

namespace heddle {

namespace {

bool has_test_images(const VariantResult& variant) {
  return variant.evaluation && (variant.evaluation->rank1 || variant.evaluation->verification);
}

std::string tar_heading(int exponent) {
  return fmt::format("TAR@FAR=1e-{} (%)", exponent);
}

std::string tar_cell(const Verification& verification, int exponent) {
  for (const TarAtFar& point : verification.tar_at_far)
    if (point.exponent == exponent) return percent(point.tar);
  return absent;
}

std::string accuracy_cell(const Verification& verification) {
  return fmt::format("{} +- {}", percent(verification.accuracy), percent(verification.deviation));
}

const std::vector<EvaluatedSet>& sets_of(const VariantResult& variant) {
  static const std::vector<EvaluatedSet> none;
  return variant.evaluation ? variant.evaluation->sets : none;
}

/// The smallest false accept rates that some set has enough pairs for.
std::set<int> exponents_shown(const RunResult& run) {
  constexpr std::size_t max_columns = 3;
  std::set<int> exponents;
  for (const VariantResult& variant : run.variants)
    for (const EvaluatedSet& set : sets_of(variant))
      if (set.verified)
        for (const TarAtFar& point : set.verified->verification.tar_at_far) exponents.insert(point.exponent);
  while (exponents.size() > max_columns) exponents.erase(exponents.begin());
  return exponents;
}

}  // namespace

std::string percent(double share) {
  return fmt::format("{:.2f}", 100 * share);
}

std::string accuracy_table(const RunResult& run) {
  std::set<int> exponents;
  bool is_evaluated = false;
  for (const VariantResult& variant : run.variants) {
    is_evaluated |= has_test_images(variant);
    if (!has_test_images(variant) || !variant.evaluation->verification) continue;
    for (const TarAtFar& point : variant.evaluation->verification->tar_at_far) exponents.insert(point.exponent);
  }
  if (!is_evaluated) return "";
  std::vector<std::string> headers{"variant", "rank-1 (%)", "verification (%)"};
  for (const int exponent : exponents) headers.push_back(tar_heading(exponent));
  Grid grid(headers);
  for (const VariantResult& variant : run.variants) {
    if (!has_test_images(variant)) continue;
    const std::optional<double>& rank1 = variant.evaluation->rank1;
    const std::optional<Verification>& verification = variant.evaluation->verification;
    std::vector<std::string> row{variant.name, rank1 ? percent(*rank1) : absent};
    row.push_back(verification ? accuracy_cell(*verification) : absent);
    for (const int exponent : exponents) row.push_back(verification ? tar_cell(*verification, exponent) : absent);
    grid.add(row);
  }
  return grid.to_text();
}

std::string sets_table(const RunResult& run) {
  const std::set<int> exponents = exponents_shown(run);
  std::vector<std::string> headers{"variant", "set", "accuracy (%)", "threshold"};
  for (const int exponent : exponents) headers.push_back(tar_heading(exponent));
  Grid grid(headers);
  bool has_sets = false;
  for (const VariantResult& variant : run.variants) {
    for (const EvaluatedSet& set : sets_of(variant)) {
      if (!set.verified) continue;
      has_sets = true;
      const Verification& verification = set.verified->verification;
      std::vector<std::string> row{variant.name, set.name, accuracy_cell(verification),
                                   fmt::format("{:.3f}", verification.threshold)};
      for (const int exponent : exponents) row.push_back(tar_cell(verification, exponent));
      grid.add(row);
    }
  }
  return has_sets ? grid.to_text() : "";
}

std::string identification_table(const RunResult& run) {
  std::vector<std::string> headers{"variant", "set", "gallery"};
  for (const std::int64_t rank : reported_ranks) headers.push_back(fmt::format("rank-{} (%)", rank));
  Grid grid(headers);
  bool has_sets = false;
  for (const VariantResult& variant : run.variants) {
    for (const EvaluatedSet& set : sets_of(variant)) {
      if (!set.identified) continue;
      has_sets = true;
      std::vector<std::string> row{variant.name, set.name, fmt::format("{}", set.identified->gallery)};
      for (const double rate : set.identified->rates) row.push_back(percent(rate));
      grid.add(row);
    }
  }
  return has_sets ? grid.to_text() : "";
}

}  // namespace heddle

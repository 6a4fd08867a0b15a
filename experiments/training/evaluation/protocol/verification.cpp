#include "experiments/training/evaluation/protocol/verification.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "framework/error.h"

namespace heddle {

namespace {

constexpr int thresholds = 400;
using Counts = std::array<std::int64_t, thresholds>;

double threshold_of(std::size_t t) {
  return 0.01 * static_cast<double>(t);
}

/// The number of the lowest threshold that accepts this distance; `thresholds` if none does.
std::size_t first_accepting(double distance) {
  if (!(distance < threshold_of(thresholds))) return thresholds;
  auto t = static_cast<std::size_t>(std::max(distance, 0.0) * 100);
  while (t > 0 && distance < threshold_of(t - 1)) --t;
  while (distance >= threshold_of(t)) ++t;
  return std::min<std::size_t>(t, thresholds);
}

/// The number of pairs that each threshold classifies correctly.
Counts count_correct(std::span<const ComparedPair> pairs) {
  std::array<std::int64_t, thresholds + 1> change{};  // from each threshold to the next
  std::int64_t right = 0;
  for (const ComparedPair& pair : pairs) {
    change[first_accepting(pair.distance)] += pair.same ? 1 : -1;
    right += pair.same ? 0 : 1;
  }
  Counts correct{};
  for (std::size_t t = 0; t < thresholds; ++t) correct[t] = right += change[t];
  return correct;
}

std::vector<std::span<const ComparedPair>> contiguous_folds(std::span<const ComparedPair> pairs, std::int64_t count) {
  const auto folds = static_cast<std::size_t>(count);
  std::vector<std::span<const ComparedPair>> parts;
  for (std::size_t fold = 0, begin = 0; fold < folds; ++fold) {
    const std::size_t size = pairs.size() / folds + (fold < pairs.size() % folds ? 1 : 0);
    parts.push_back(pairs.subspan(begin, size));
    begin += size;
  }
  return parts;
}

bool has_both_kinds(std::span<const ComparedPair> fold) {
  const auto is_genuine = [](const ComparedPair& pair) { return pair.same; };
  return std::any_of(fold.begin(), fold.end(), is_genuine) && !std::all_of(fold.begin(), fold.end(), is_genuine);
}

/// The pairs with both kinds mixed evenly, each in its order. Kinds of equal number alternate, and a genuine pair comes
/// first.
std::vector<ComparedPair> mixed(std::span<const ComparedPair> pairs) {
  std::vector<ComparedPair> genuine;
  std::vector<ComparedPair> impostors;
  for (const ComparedPair& pair : pairs) (pair.same ? genuine : impostors).push_back(pair);
  std::vector<ComparedPair> all;
  std::size_t g = 0;
  std::size_t i = 0;
  while (g < genuine.size() || i < impostors.size()) {
    const bool takes_genuine = g * impostors.size() <= i * genuine.size() && g < genuine.size();
    all.push_back(takes_genuine || i == impostors.size() ? genuine[g++] : impostors[i++]);
  }
  return all;
}

/// Cuts pairs into contiguous folds, after mixing them if a fold would have pairs of one kind only.
class Folds {
 public:
  Folds(std::span<const ComparedPair> pairs, std::int64_t count) : parts_(contiguous_folds(pairs, count)) {
    if (std::all_of(parts_.begin(), parts_.end(), has_both_kinds)) return;
    mixed_ = mixed(pairs);
    parts_ = contiguous_folds(mixed_, count);
  }
  Folds(const Folds&) = delete;
  Folds& operator=(const Folds&) = delete;
  const std::vector<std::span<const ComparedPair>>& parts() const { return parts_; }

 private:
  std::vector<ComparedPair> mixed_;
  std::vector<std::span<const ComparedPair>> parts_;
};

/// The threshold that classifies most pairs outside one fold correctly; the lowest of equals.
std::size_t best_of(const Counts& all, const Counts& left_out) {
  std::size_t best = 0;
  for (std::size_t t = 1; t < thresholds; ++t)
    if (all[t] - left_out[t] > all[best] - left_out[best]) best = t;
  return best;
}

void summarise(const std::vector<double>& accuracies, Verification& result) {
  const auto folds = static_cast<double>(accuracies.size());
  result.accuracy = std::accumulate(accuracies.begin(), accuracies.end(), 0.0) / folds;
  double squares = 0;
  for (const double accuracy : accuracies) squares += (accuracy - result.accuracy) * (accuracy - result.accuracy);
  result.deviation = std::sqrt(squares / folds);
}

}  // namespace

std::optional<std::int64_t> fold_count(std::size_t pairs, std::int64_t max_folds) {
  const std::int64_t folds = std::min(max_folds, static_cast<std::int64_t>(pairs / 2));
  return folds < 2 ? std::nullopt : std::optional(folds);
}

Verification verify(std::span<const ComparedPair> pairs, std::int64_t folds) {
  const std::optional<std::int64_t> count = fold_count(pairs.size(), folds);
  if (!count) fail("evaluation: {} pairs are too few for two folds", pairs.size());
  Verification result{.pairs = static_cast<std::int64_t>(pairs.size()), .folds = *count};
  const Folds order(pairs, result.folds);
  std::vector<Counts> correct;
  Counts all{};
  for (const auto fold : order.parts()) {
    correct.push_back(count_correct(fold));
    for (std::size_t t = 0; t < thresholds; ++t) all[t] += correct.back()[t];
  }
  std::vector<double> accuracies;
  for (std::size_t fold = 0; fold < correct.size(); ++fold) {
    const std::size_t best = best_of(all, correct[fold]);
    accuracies.push_back(static_cast<double>(correct[fold][best]) / static_cast<double>(order.parts()[fold].size()));
    result.threshold += threshold_of(best) / static_cast<double>(result.folds);
  }
  summarise(accuracies, result);
  result.tar_at_far = tar_at_far(pairs);
  return result;
}

Verification verify_at(double threshold, std::span<const ComparedPair> pairs, std::int64_t folds) {
  if (pairs.empty()) fail("evaluation: there are no pairs to verify");
  Verification result{.pairs = static_cast<std::int64_t>(pairs.size()),
                      .folds = fold_count(pairs.size(), folds).value_or(1),
                      .threshold = threshold};
  const auto share_right = [&](std::span<const ComparedPair> some) {
    const auto right = std::count_if(
        some.begin(), some.end(), [&](const ComparedPair& pair) { return (pair.distance < threshold) == pair.same; });
    return static_cast<double>(right) / static_cast<double>(some.size());
  };
  const Folds order(pairs, result.folds);
  std::vector<double> accuracies;
  for (const auto fold : order.parts()) accuracies.push_back(share_right(fold));
  summarise(accuracies, result);
  result.accuracy = share_right(pairs);
  result.tar_at_far = tar_at_far(pairs);
  return result;
}

double best_threshold(std::span<const ComparedPair> pairs) {
  return threshold_of(best_of(count_correct(pairs), {}));
}

std::vector<TarAtFar> tar_at_far(std::span<const ComparedPair> pairs, int first) {
  std::vector<double> genuine;
  std::vector<double> impostors;
  for (const ComparedPair& pair : pairs) (pair.same ? genuine : impostors).push_back(pair.distance);
  std::vector<TarAtFar> rates;
  if (genuine.empty()) return rates;
  std::sort(genuine.begin(), genuine.end());
  std::sort(impostors.begin(), impostors.end());
  std::size_t one_in = 10;
  for (int exponent = 1; exponent <= max_far_exponent && one_in <= impostors.size(); ++exponent, one_in *= 10) {
    if (exponent < first) continue;
    const double nearest_refused = impostors[impostors.size() / one_in];
    const auto accepted = std::lower_bound(genuine.begin(), genuine.end(), nearest_refused) - genuine.begin();
    rates.push_back({.exponent = exponent, .tar = static_cast<double>(accepted) / static_cast<double>(genuine.size())});
  }
  return rates;
}

std::optional<Verification> verify_drawn(const Embeddings& images, const DrawnPairs& drawn, RandomKey key) {
  const UnitRows rows(images.values, images.labels.size());
  const PairChooser chooser(images.labels, key);
  const std::vector<Pair> pairs = balanced_pairs(chooser, drawn.pairs);
  if (!fold_count(pairs.size(), drawn.folds)) return std::nullopt;
  Verification result = verify(compare(rows, pairs), drawn.folds);
  std::vector<Pair> for_rates = chooser.genuine(drawn.impostor_pairs);
  const std::vector<Pair> impostors = chooser.impostors(drawn.impostor_pairs);
  for_rates.insert(for_rates.end(), impostors.begin(), impostors.end());
  result.tar_at_far = tar_at_far(compare(rows, for_rates), 3);
  return result;
}

}  // namespace heddle

#include "experiments/training/evaluation/protocol/pairs.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "framework/scalars/permutation.h"

namespace heddle {

namespace {

std::int64_t pairs_among(std::int64_t n) {
  return n * (n - 1) / 2;
}

/// Pair `number` of the sequence (0,1), (0,2), (1,2), (0,3), ..., which has every pair once.
Pair numbered_pair(std::int64_t number) {
  auto second = static_cast<std::int64_t>((1 + std::sqrt(1 + 8 * static_cast<double>(number))) / 2);
  while (pairs_among(second) > number) --second;
  while (pairs_among(second + 1) <= number) ++second;
  return {.first = number - pairs_among(second), .second = second, .same = false};
}

}  // namespace

PairChooser::PairChooser(std::span<const std::int64_t> labels, RandomKey key) : labels_(labels), key_(key) {
  std::map<std::int64_t, std::vector<std::int64_t>> images;
  for (std::size_t i = 0; i < labels.size(); ++i) images[labels[i]].push_back(static_cast<std::int64_t>(i));
  for (auto& [label, members] : images) {
    first_pair_.push_back(genuine_);
    genuine_ += pairs_among(static_cast<std::int64_t>(members.size()));
    groups_.push_back(std::move(members));
  }
  all_ = pairs_among(static_cast<std::int64_t>(labels.size()));
}

std::vector<Pair> PairChooser::genuine(std::int64_t count) const {
  std::vector<Pair> pairs;
  count = std::min(count, genuine_count());
  if (count == 0) return pairs;
  const Permutation order(genuine_, key_, Purpose::evaluation_pairs, 0);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t number = order[i];
    const auto after = std::upper_bound(first_pair_.begin(), first_pair_.end(), number);
    const auto group = static_cast<std::size_t>(after - first_pair_.begin() - 1);
    const Pair within = numbered_pair(number - first_pair_[group]);
    pairs.push_back({.first = groups_[group][static_cast<std::size_t>(within.first)],
                     .second = groups_[group][static_cast<std::size_t>(within.second)],
                     .same = true});
  }
  return pairs;
}

std::vector<Pair> PairChooser::impostors(std::int64_t count) const {
  std::vector<Pair> pairs;
  count = std::min(count, impostor_count());
  if (count == 0) return pairs;
  const Permutation order(all_, key_, Purpose::evaluation_pairs, 1);
  for (std::int64_t i = 0; static_cast<std::int64_t>(pairs.size()) < count; ++i) {
    const Pair pair = numbered_pair(order[i]);
    if (labels_[static_cast<std::size_t>(pair.first)] != labels_[static_cast<std::size_t>(pair.second)])
      pairs.push_back(pair);
  }
  return pairs;
}

std::vector<Pair> balanced_pairs(const PairChooser& chooser, std::int64_t count) {
  const std::int64_t half = std::min({count / 2, chooser.genuine_count(), chooser.impostor_count()});
  const std::vector<Pair> genuine = chooser.genuine(half);
  const std::vector<Pair> impostors = chooser.impostors(half);
  std::vector<Pair> pairs;
  for (std::size_t i = 0; i < genuine.size(); ++i) pairs.insert(pairs.end(), {genuine[i], impostors[i]});
  return pairs;
}

std::vector<Pair> balanced_pairs(std::span<const std::int64_t> labels, std::int64_t count, RandomKey key) {
  return balanced_pairs(PairChooser(labels, key), count);
}

}  // namespace heddle

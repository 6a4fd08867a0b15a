#include "experiments/training/evaluation/evaluation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "experiments/data/parallel_for.h"
#include "framework/error.h"
#include "framework/scalars/permutation.h"

namespace heddle {
namespace {

/// Eight sums side by side, which the compiler keeps in one vector register; their order is fixed.
float dot(const float* a, const float* b, std::size_t n) {
  std::array<float, 8> sums{};
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (std::size_t k = 0; k < 8; ++k) sums[k] += a[i + k] * b[i + k];
  for (; i < n; ++i) sums[i % 8] += a[i] * b[i];
  return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

/// Rows of length 1; NaN where a row has no direction, which no comparison accepts.
class UnitRows {
 public:
  explicit UnitRows(const Embeddings& e) : values_(e.values.begin(), e.values.end()) {
    if (e.labels.empty() || e.values.empty() || e.values.size() % e.labels.size() != 0)
      fail("evaluation: {} numbers are not the embeddings of {} images", e.values.size(), e.labels.size());
    dimension_ = e.values.size() / e.labels.size();
    for (std::size_t i = 0; i < e.labels.size(); ++i) {
      float* const row = &values_[i * dimension_];
      double norm = 0;
      for (std::size_t k = 0; k < dimension_; ++k) norm += static_cast<double>(row[k]) * row[k];
      const double scale =
          norm > 0 && std::isfinite(norm) ? 1 / std::sqrt(norm) : std::numeric_limits<double>::quiet_NaN();
      for (std::size_t k = 0; k < dimension_; ++k) row[k] = static_cast<float>(row[k] * scale);
    }
  }

  std::size_t dimension() const { return dimension_; }
  const float* row(std::int64_t i) const { return &values_[static_cast<std::size_t>(i) * dimension_]; }

 private:
  std::vector<float> values_;
  std::size_t dimension_ = 0;
};

/// Squared distances of unit rows; infinite where one has no direction.
std::vector<double> squared_distances(const UnitRows& rows, const std::vector<Pair>& pairs) {
  std::vector<double> distances(pairs.size());
  constexpr std::size_t chunk = 1024;
  const std::size_t chunks = (pairs.size() + chunk - 1) / chunk;
  parallel_for(static_cast<std::int64_t>(chunks), [&](std::int64_t c) {
    const std::size_t first = static_cast<std::size_t>(c) * chunk;
    for (std::size_t i = first; i < std::min(first + chunk, pairs.size()); ++i) {
      const float* const a = rows.row(pairs[i].first);
      const float* const b = rows.row(pairs[i].second);
      double sum = 0;
      for (std::size_t k = 0; k < rows.dimension(); ++k) {
        const double difference = static_cast<double>(a[k]) - b[k];
        sum += difference * difference;
      }
      distances[i] = std::isnan(sum) ? std::numeric_limits<double>::infinity() : sum;
    }
  });
  return distances;
}

std::int64_t pairs_among(std::int64_t n) {
  return n * (n - 1) / 2;
}

/// Pair `number` of (0,1), (0,2), (1,2), (0,3), ...: every pair once.
Pair numbered_pair(std::int64_t number) {
  auto second = static_cast<std::int64_t>((1 + std::sqrt(1 + 8 * static_cast<double>(number))) / 2);
  while (pairs_among(second) > number) --second;
  while (pairs_among(second + 1) <= number) ++second;
  return {.first = number - pairs_among(second), .second = second, .same = false};
}

/// Draws pairs of one kind without drawing one twice, in an order that only the seed decides.
class PairChooser {
 public:
  PairChooser(std::span<const std::int64_t> labels, RandomKey key) : labels_(labels), key_(key) {
    std::map<std::int64_t, std::vector<std::int64_t>> images;
    for (std::size_t i = 0; i < labels.size(); ++i) images[labels[i]].push_back(static_cast<std::int64_t>(i));
    for (auto& [label, members] : images) {
      first_pair_.push_back(genuine_);
      genuine_ += pairs_among(static_cast<std::int64_t>(members.size()));
      groups_.push_back(std::move(members));
    }
    all_ = pairs_among(static_cast<std::int64_t>(labels.size()));
  }

  std::int64_t genuine_count() const { return genuine_; }
  std::int64_t impostor_count() const { return all_ - genuine_; }

  std::vector<Pair> genuine(std::int64_t count) const {
    std::vector<Pair> pairs;
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

  std::vector<Pair> impostors(std::int64_t count) const {
    std::vector<Pair> pairs;
    if (count == 0) return pairs;
    const Permutation order(all_, key_, Purpose::evaluation_pairs, 1);
    for (std::int64_t i = 0; static_cast<std::int64_t>(pairs.size()) < count; ++i) {
      const Pair pair = numbered_pair(order[i]);
      if (labels_[static_cast<std::size_t>(pair.first)] != labels_[static_cast<std::size_t>(pair.second)])
        pairs.push_back(pair);
    }
    return pairs;
  }

 private:
  std::span<const std::int64_t> labels_;
  RandomKey key_;
  std::vector<std::vector<std::int64_t>> groups_;
  std::vector<std::int64_t> first_pair_;
  std::int64_t genuine_ = 0;
  std::int64_t all_ = 0;
};

std::vector<Pair> balanced(const PairChooser& chooser, std::int64_t count) {
  const std::int64_t half = std::min({count / 2, chooser.genuine_count(), chooser.impostor_count()});
  const std::vector<Pair> genuine = chooser.genuine(half);
  const std::vector<Pair> impostors = chooser.impostors(half);
  std::vector<Pair> pairs;
  for (std::size_t i = 0; i < genuine.size(); ++i) pairs.insert(pairs.end(), {genuine[i], impostors[i]});
  return pairs;
}

constexpr int thresholds = 400;
using Correct = std::array<std::int64_t, thresholds>;

/// Pairs of [begin, end) that each threshold judges rightly.
Correct judge(const std::vector<Pair>& pairs, const std::vector<double>& distances, std::size_t begin,
              std::size_t end) {
  Correct correct{};
  for (int t = 0; t < thresholds; ++t)
    for (std::size_t i = begin; i < end; ++i)
      correct[static_cast<std::size_t>(t)] += (distances[i] < 0.01 * t) == pairs[i].same ? 1 : 0;
  return correct;
}

void score_folds(Verification& result, const std::vector<Pair>& pairs, const std::vector<double>& distances) {
  const auto folds = static_cast<std::size_t>(result.folds);
  std::vector<Correct> correct(folds);
  std::vector<double> sizes(folds);
  Correct all{};
  for (std::size_t fold = 0, begin = 0; fold < folds; ++fold) {
    const std::size_t size = pairs.size() / folds + (fold < pairs.size() % folds ? 1 : 0);
    correct[fold] = judge(pairs, distances, begin, begin + size);
    sizes[fold] = static_cast<double>(size);
    for (std::size_t t = 0; t < thresholds; ++t) all[t] += correct[fold][t];
    begin += size;
  }
  std::vector<double> accuracies(folds);
  for (std::size_t fold = 0; fold < folds; ++fold) {
    std::size_t best = 0;
    for (std::size_t t = 1; t < thresholds; ++t)
      if (all[t] - correct[fold][t] > all[best] - correct[fold][best]) best = t;
    accuracies[fold] = static_cast<double>(correct[fold][best]) / sizes[fold];
    result.threshold += 0.01 * static_cast<double>(best) / static_cast<double>(folds);
  }
  result.accuracy = std::accumulate(accuracies.begin(), accuracies.end(), 0.0) / static_cast<double>(folds);
  double squares = 0;
  for (const double accuracy : accuracies) squares += (accuracy - result.accuracy) * (accuracy - result.accuracy);
  result.deviation = std::sqrt(squares / static_cast<double>(folds));
}

std::vector<TarAtFar> tar_at_far(std::vector<double> genuine, std::vector<double> impostors) {
  std::sort(genuine.begin(), genuine.end());
  std::sort(impostors.begin(), impostors.end());
  std::vector<TarAtFar> rates;
  std::size_t one_in = 1000;
  for (int exponent = 3; exponent <= 6 && one_in <= impostors.size(); ++exponent, one_in *= 10) {
    const double nearest_refused = impostors[impostors.size() / one_in];
    const auto accepted = std::lower_bound(genuine.begin(), genuine.end(), nearest_refused) - genuine.begin();
    rates.push_back({.exponent = exponent, .tar = static_cast<double>(accepted) / static_cast<double>(genuine.size())});
  }
  return rates;
}

}  // namespace

double rank1(const Embeddings& gallery, const Embeddings& test) {
  const UnitRows known(gallery);
  const UnitRows asked(test);
  if (known.dimension() != asked.dimension())
    fail("evaluation: test embeddings of {} numbers do not compare with a gallery of {}", asked.dimension(),
         known.dimension());
  std::vector<char> right(test.labels.size(), 0);
  // Some test rows at a time, which stay in the cache while the gallery goes by.
  constexpr std::size_t together = 32;
  parallel_for(static_cast<std::int64_t>((right.size() + together - 1) / together), [&](std::int64_t block) {
    const std::size_t begin = static_cast<std::size_t>(block) * together;
    const std::size_t end = std::min(begin + together, right.size());
    std::array<float, together> best{};
    best.fill(-std::numeric_limits<float>::infinity());
    for (std::size_t j = 0; j < gallery.labels.size(); ++j) {
      const float* const row = known.row(static_cast<std::int64_t>(j));
      for (std::size_t i = begin; i < end; ++i) {
        const float cosine = dot(asked.row(static_cast<std::int64_t>(i)), row, known.dimension());
        if (cosine > best[i - begin]) {
          best[i - begin] = cosine;
          right[i] = gallery.labels[j] == test.labels[i] ? 1 : 0;
        }
      }
    }
  });
  return static_cast<double>(std::count(right.begin(), right.end(), 1)) / static_cast<double>(right.size());
}

std::vector<Pair> balanced_pairs(std::span<const std::int64_t> labels, std::int64_t count, RandomKey key) {
  return balanced(PairChooser(labels, key), count);
}

std::optional<Verification> verification(const Embeddings& images, const VerificationOptions& options, RandomKey key) {
  const UnitRows rows(images);
  const PairChooser chooser(images.labels, key);
  const std::vector<Pair> pairs = balanced(chooser, options.pairs);
  Verification result;
  result.pairs = static_cast<std::int64_t>(pairs.size());
  result.folds = std::min(options.folds, result.pairs / 2);
  if (result.folds < 2) return std::nullopt;
  score_folds(result, pairs, squared_distances(rows, pairs));

  const auto at_most = [&](std::int64_t count) { return std::min(count, options.impostor_pairs); };
  result.tar_at_far = tar_at_far(squared_distances(rows, chooser.genuine(at_most(chooser.genuine_count()))),
                                 squared_distances(rows, chooser.impostors(at_most(chooser.impostor_count()))));
  return result;
}

}  // namespace heddle

#include "experiments/training/evaluation/protocol/identification.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <set>

#include "experiments/data/parallel_for.h"
#include "experiments/training/evaluation/protocol/nearest.h"
#include "experiments/training/evaluation/protocol/unit_rows.h"
#include "framework/error.h"

namespace heddle {

namespace {

/// Adds up eight partial sums, which the compiler keeps in one vector register, in a fixed order.
float dot(const float* a, const float* b, std::size_t n) {
  std::array<float, 8> sums{};
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (std::size_t k = 0; k < 8; ++k) sums[k] += a[i + k] * b[i + k];
  for (; i < n; ++i) sums[i % 8] += a[i] * b[i];
  return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

/// The share of known probes that are identified at each false positive rate for which there are enough unknown probes.
std::vector<TpirAtFpir> tpir_at_fpir(std::vector<double> unknown, const std::vector<double>& right,
                                     std::int64_t known) {
  std::sort(unknown.begin(), unknown.end(), std::greater<>());
  std::vector<TpirAtFpir> rates;
  std::size_t one_in = 10;
  for (int exponent = 1; one_in <= unknown.size(); ++exponent, one_in *= 10) {
    const double nearest_refused = unknown[unknown.size() / one_in];
    const auto identified =
        std::count_if(right.begin(), right.end(), [&](double cosine) { return cosine > nearest_refused; });
    rates.push_back({.exponent = exponent, .tpir = static_cast<double>(identified) / static_cast<double>(known)});
  }
  return rates;
}

void check_comparable(std::size_t gallery, std::size_t probes) {
  if (gallery != probes)
    fail("evaluation: probes of dimension {} cannot be compared with a gallery of dimension {}", probes, gallery);
}

}  // namespace

double rank1(const Embeddings& gallery, const Embeddings& test) {
  const UnitRows gallery_rows(gallery.values, gallery.labels.size());
  const UnitRows test_rows(test.values, test.labels.size());
  check_comparable(gallery_rows.dimension(), test_rows.dimension());
  std::vector<char> right(test.labels.size(), 0);
  // A few test rows stay in the cache while the whole gallery is read.
  constexpr std::size_t block_rows = 32;
  parallel_for(static_cast<std::int64_t>((right.size() + block_rows - 1) / block_rows), [&](std::int64_t block) {
    const std::size_t begin = static_cast<std::size_t>(block) * block_rows;
    const std::size_t end = std::min(begin + block_rows, right.size());
    std::array<float, block_rows> best{};
    best.fill(-std::numeric_limits<float>::infinity());
    for (std::size_t j = 0; j < gallery.labels.size(); ++j) {
      const float* const row = gallery_rows.row(static_cast<std::int64_t>(j)).data();
      for (std::size_t i = begin; i < end; ++i) {
        const float cosine = dot(test_rows.row(static_cast<std::int64_t>(i)).data(), row, gallery_rows.dimension());
        if (cosine > best[i - begin]) {
          best[i - begin] = cosine;
          right[i] = gallery.labels[j] == test.labels[i] ? 1 : 0;
        }
      }
    }
  });
  return static_cast<double>(std::count(right.begin(), right.end(), 1)) / static_cast<double>(right.size());
}

Identification identify(const Embeddings& gallery, const Embeddings& probes, Device& device) {
  const MemoryScope scope(device, Category::workspace);
  const UnitRows probe_rows(probes.values, probes.labels.size());
  if (gallery.labels.empty()) fail("evaluation: a gallery without images");
  check_comparable(gallery.values.size() / gallery.labels.size(), probe_rows.dimension());
  RowTable gallery_rows(device, static_cast<std::int64_t>(gallery.labels.size()),
                        static_cast<std::int64_t>(probe_rows.dimension()));
  gallery_rows.append(gallery.values);
  const std::set<std::int64_t> people(gallery.labels.begin(), gallery.labels.end());
  const auto is_known = [&](std::int64_t label) { return label != distractor && people.contains(label); };
  Identification result{.gallery = gallery_rows.rows()};
  result.distractors = std::count(gallery.labels.begin(), gallery.labels.end(), distractor);
  std::array<std::int64_t, reported_ranks.size()> found{};
  std::vector<double> best_of_unknown;
  std::vector<double> right;  // the cosines of known probes whose nearest image shows their person
  const std::vector<Neighbours> nearest = nearest_rows(gallery_rows, {}, probe_rows, reported_ranks.back());
  for (std::size_t i = 0; i < nearest.size(); ++i) {
    const Neighbours& candidates = nearest[i];
    const std::int64_t label = probes.labels[i];
    if (!is_known(label)) {
      ++result.unknown;
      best_of_unknown.push_back(candidates.empty() ? -std::numeric_limits<double>::infinity()
                                                   : candidates.front().cosine);
      continue;
    }
    ++result.known;
    const auto mate = std::find_if(candidates.begin(), candidates.end(), [&](const Neighbour& candidate) {
      return gallery.labels[static_cast<std::size_t>(candidate.row)] == label;
    });
    for (std::size_t r = 0; r < reported_ranks.size(); ++r)
      if (mate != candidates.end() && mate - candidates.begin() < reported_ranks[r]) ++found[r];
    if (!candidates.empty() && mate == candidates.begin()) right.push_back(mate->cosine);
  }
  if (result.known == 0) fail("evaluation: none of {} probes shows a person in the gallery", nearest.size());
  for (std::size_t r = 0; r < found.size(); ++r)
    result.rates[r] = static_cast<double>(found[r]) / static_cast<double>(result.known);
  result.tpir_at_fpir = tpir_at_fpir(std::move(best_of_unknown), right, result.known);
  return result;
}

}  // namespace heddle

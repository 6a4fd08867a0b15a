#include "experiments/training/evaluation/protocol/identification.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <set>

#include "experiments/data/parallel_for.h"
#include "framework/error.h"
#include "framework/ops/linear_algebra.h"

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

/// An image of the gallery and how near it is to a probe.
struct Candidate {
  float cosine;
  std::int64_t image;
};

/// The nearest images of the gallery to one probe, the nearest first.
class Nearest {
 public:
  /// Images must come in ascending order. NaN is nearer than nothing.
  void offer(std::span<const float> cosines, std::int64_t first_image) {
    for (std::size_t i = 0; i < cosines.size(); ++i) {
      if (!(cosines[i] > least_)) continue;
      std::size_t place = std::min(count_, candidates_.size() - 1);
      while (place > 0 && cosines[i] > candidates_[place - 1].cosine) {
        candidates_[place] = candidates_[place - 1];
        --place;
      }
      candidates_[place] = {cosines[i], first_image + static_cast<std::int64_t>(i)};
      count_ = std::min(count_ + 1, candidates_.size());
      if (count_ == candidates_.size()) least_ = candidates_.back().cosine;
    }
  }
  std::span<const Candidate> candidates() const { return std::span(candidates_).first(count_); }

 private:
  std::array<Candidate, reported_ranks.back()> candidates_{};
  std::size_t count_ = 0;
  float least_ = -std::numeric_limits<float>::infinity();  // what is no nearer than this is passed over
};

/// Rows begin .. begin + count of unit vectors on a device.
Variable rows_on(Device& device, const UnitRows& rows, std::size_t begin, std::size_t count) {
  return Variable(Tensor::from_host(device,
                                    {static_cast<std::int64_t>(count), static_cast<std::int64_t>(rows.dimension())},
                                    rows.values().subspan(begin * rows.dimension(), count * rows.dimension())));
}

std::vector<Nearest> nearest_of(const UnitRows& gallery, const UnitRows& probes, Device& device) {
  constexpr std::size_t most_probes = 1024;
  constexpr std::size_t most_images = 8192;  // 32 MiB of cosines
  const NoGrad no_grad(device);
  const MemoryScope scope(device, Category::workspace);
  std::vector<Nearest> nearest(probes.size());
  for (std::size_t probe = 0; probe < probes.size(); probe += most_probes) {
    const std::size_t asked = std::min(most_probes, probes.size() - probe);
    const Variable left = rows_on(device, probes, probe, asked);
    for (std::size_t image = 0; image < gallery.size(); image += most_images) {
      const std::size_t known = std::min(most_images, gallery.size() - image);
      const std::vector<float> cosines =
          matmul(left, rows_on(device, gallery, image, known), false, true).value().to_host<float>();
      parallel_for(static_cast<std::int64_t>(asked), [&](std::int64_t i) {
        const auto row = static_cast<std::size_t>(i);
        nearest[probe + row].offer(std::span(cosines).subspan(row * known, known), static_cast<std::int64_t>(image));
      });
    }
  }
  return nearest;
}

/// What the scores of the unknown probes leave of the known ones, for each rate that they carry.
std::vector<TpirAtFpir> tpir_at_fpir(std::vector<float> unknown, const std::vector<float>& right, std::int64_t known) {
  std::sort(unknown.begin(), unknown.end(), std::greater<>());
  std::vector<TpirAtFpir> rates;
  std::size_t one_in = 10;
  for (int exponent = 1; one_in <= unknown.size(); ++exponent, one_in *= 10) {
    const float nearest_refused = unknown[unknown.size() / one_in];
    const auto identified =
        std::count_if(right.begin(), right.end(), [&](float cosine) { return cosine > nearest_refused; });
    rates.push_back({.exponent = exponent, .tpir = static_cast<double>(identified) / static_cast<double>(known)});
  }
  return rates;
}

void check_comparable(const UnitRows& gallery, const UnitRows& asked) {
  if (gallery.dimension() != asked.dimension())
    fail("evaluation: test embeddings of {} numbers do not compare with a gallery of {}", asked.dimension(),
         gallery.dimension());
}

}  // namespace

double rank1(const Embeddings& gallery, const Embeddings& test) {
  const UnitRows known(gallery.values, gallery.labels.size());
  const UnitRows asked(test.values, test.labels.size());
  check_comparable(known, asked);
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

Identification identify(const Embeddings& gallery, const Embeddings& probes, Device& device) {
  const UnitRows known(gallery.values, gallery.labels.size());
  const UnitRows asked(probes.values, probes.labels.size());
  check_comparable(known, asked);
  const std::set<std::int64_t> people(gallery.labels.begin(), gallery.labels.end());
  const auto is_known = [&](std::int64_t label) { return label != nobody && people.contains(label); };
  Identification result{.gallery = static_cast<std::int64_t>(known.size())};
  result.distractors = std::count(gallery.labels.begin(), gallery.labels.end(), nobody);
  std::array<std::int64_t, reported_ranks.size()> found{};
  std::vector<float> best_of_unknown;
  std::vector<float> right;  // the cosines of known probes whose nearest image is of their person
  const std::vector<Nearest> nearest = nearest_of(known, asked, device);
  for (std::size_t i = 0; i < nearest.size(); ++i) {
    const std::span<const Candidate> candidates = nearest[i].candidates();
    const std::int64_t label = probes.labels[i];
    if (!is_known(label)) {
      ++result.unknown;
      best_of_unknown.push_back(candidates.empty() ? -std::numeric_limits<float>::infinity()
                                                   : candidates.front().cosine);
      continue;
    }
    ++result.known;
    const auto mate = std::find_if(candidates.begin(), candidates.end(), [&](const Candidate& candidate) {
      return gallery.labels[static_cast<std::size_t>(candidate.image)] == label;
    });
    for (std::size_t r = 0; r < reported_ranks.size(); ++r)
      if (mate != candidates.end() && mate - candidates.begin() < reported_ranks[r]) ++found[r];
    if (!candidates.empty() && mate == candidates.begin()) right.push_back(mate->cosine);
  }
  if (result.known == 0) fail("evaluation: none of {} probes is of a person in the gallery", nearest.size());
  for (std::size_t r = 0; r < found.size(); ++r)
    result.rates[r] = static_cast<double>(found[r]) / static_cast<double>(result.known);
  result.tpir_at_fpir = tpir_at_fpir(std::move(best_of_unknown), right, result.known);
  return result;
}

}  // namespace heddle

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

/// Adds up eight partial sums, which the compiler keeps in one vector register, in a fixed order.
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
  /// Images must be offered in ascending order. A cosine that is NaN is skipped.
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
  float least_ = -std::numeric_limits<float>::infinity();  // images that are no nearer than this are skipped
};

/// Copies `count` rows from `begin` on to a device.
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
    const std::size_t probe_count = std::min(most_probes, probes.size() - probe);
    const Variable probe_rows = rows_on(device, probes, probe, probe_count);
    for (std::size_t image = 0; image < gallery.size(); image += most_images) {
      const std::size_t image_count = std::min(most_images, gallery.size() - image);
      const std::vector<float> cosines =
          matmul(probe_rows, rows_on(device, gallery, image, image_count), false, true).value().to_host<float>();
      parallel_for(static_cast<std::int64_t>(probe_count), [&](std::int64_t i) {
        const auto row = static_cast<std::size_t>(i);
        nearest[probe + row].offer(std::span(cosines).subspan(row * image_count, image_count),
                                   static_cast<std::int64_t>(image));
      });
    }
  }
  return nearest;
}

/// The share of known probes that are identified at each false positive rate for which there are enough unknown probes.
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

void check_comparable(const UnitRows& gallery, const UnitRows& probes) {
  if (gallery.dimension() != probes.dimension())
    fail("evaluation: probes of dimension {} cannot be compared with a gallery of dimension {}", probes.dimension(),
         gallery.dimension());
}

}  // namespace

double rank1(const Embeddings& gallery, const Embeddings& test) {
  const UnitRows gallery_rows(gallery.values, gallery.labels.size());
  const UnitRows test_rows(test.values, test.labels.size());
  check_comparable(gallery_rows, test_rows);
  std::vector<char> right(test.labels.size(), 0);
  // A few test rows stay in the cache while the whole gallery is read.
  constexpr std::size_t block_rows = 32;
  parallel_for(static_cast<std::int64_t>((right.size() + block_rows - 1) / block_rows), [&](std::int64_t block) {
    const std::size_t begin = static_cast<std::size_t>(block) * block_rows;
    const std::size_t end = std::min(begin + block_rows, right.size());
    std::array<float, block_rows> best{};
    best.fill(-std::numeric_limits<float>::infinity());
    for (std::size_t j = 0; j < gallery.labels.size(); ++j) {
      const float* const row = gallery_rows.row(static_cast<std::int64_t>(j));
      for (std::size_t i = begin; i < end; ++i) {
        const float cosine = dot(test_rows.row(static_cast<std::int64_t>(i)), row, gallery_rows.dimension());
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
  const UnitRows gallery_rows(gallery.values, gallery.labels.size());
  const UnitRows probe_rows(probes.values, probes.labels.size());
  check_comparable(gallery_rows, probe_rows);
  const std::set<std::int64_t> people(gallery.labels.begin(), gallery.labels.end());
  const auto is_known = [&](std::int64_t label) { return label != distractor && people.contains(label); };
  Identification result{.gallery = static_cast<std::int64_t>(gallery_rows.size())};
  result.distractors = std::count(gallery.labels.begin(), gallery.labels.end(), distractor);
  std::array<std::int64_t, reported_ranks.size()> found{};
  std::vector<float> best_of_unknown;
  std::vector<float> right;  // the cosines of known probes whose nearest image shows their person
  const std::vector<Nearest> nearest = nearest_of(gallery_rows, probe_rows, device);
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
  if (result.known == 0) fail("evaluation: none of {} probes shows a person in the gallery", nearest.size());
  for (std::size_t r = 0; r < found.size(); ++r)
    result.rates[r] = static_cast<double>(found[r]) / static_cast<double>(result.known);
  result.tpir_at_fpir = tpir_at_fpir(std::move(best_of_unknown), right, result.known);
  return result;
}

}  // namespace heddle

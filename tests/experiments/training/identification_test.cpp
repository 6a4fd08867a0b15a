#include "experiments/training/evaluation/protocol/identification.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <doctest/doctest.h>

#include "experiments/training/evaluation/protocol/nearest.h"
#include "experiments/training/evaluation/protocol/templates.h"
#include "framework/backends/backend.h"
#include "framework/error.h"
#include "framework/scalars/random.h"
#include "tests/support/compare/close_to.h"

namespace heddle::test::identification_test {

namespace {

std::vector<float> random_rows(std::size_t count, std::uint64_t seed) {
  RandomStream draws({seed}, Purpose::evaluation_pairs, 0, 0);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(draws.normal());
  return values;
}

double cosine_of(const float* a, const float* b, std::size_t dimension) {
  const double product = std::inner_product(a, a + dimension, b, 0.0);
  return product /
         std::sqrt(std::inner_product(a, a + dimension, a, 0.0) * std::inner_product(b, b + dimension, b, 0.0));
}

}  // namespace

TEST_CASE("identification equals sorting all cosines, across blocks, with distractors and unknown probes") {
  constexpr std::size_t dimension = 16;
  constexpr std::size_t images = 9000;  // more than a block
  constexpr std::size_t probe_count = 1100;
  Device device(make_backend("cpu"));
  const std::vector<float> gallery = random_rows(images * dimension, 1);
  std::vector<float> probes = random_rows(probe_count * dimension, 2);
  std::vector<std::int64_t> people(images, distractor);
  std::vector<std::int64_t> labels(probe_count);
  for (std::size_t i = 0; i < 500; ++i) people[17 * i + 3] = static_cast<std::int64_t>(i / 2);
  for (std::size_t i = 0; i < probe_count; ++i) {
    labels[i] = static_cast<std::int64_t>(i % 300);  // 250 and above are unknown
    if (labels[i] >= 250) continue;
    // The probe is near one of the person's two images, by different shares.
    const float share = static_cast<float>(i % 7) / 4;
    const std::size_t mate = 17 * (2 * static_cast<std::size_t>(labels[i]) + i % 2) + 3;
    for (std::size_t k = 0; k < dimension; ++k) probes[i * dimension + k] += 2 * share * gallery[mate * dimension + k];
  }
  const Identification result = identify({gallery, people}, {probes, labels}, device);
  CHECK(result.gallery == 9000);
  CHECK(result.distractors == 8500);

  std::array<double, reported_ranks.size()> found{};
  std::vector<double> right;
  std::vector<double> unknown;
  std::int64_t known = 0;
  for (std::size_t i = 0; i < probe_count; ++i) {
    std::vector<std::pair<double, std::size_t>> all;
    for (std::size_t j = 0; j < images; ++j)
      all.emplace_back(-cosine_of(&probes[i * dimension], &gallery[j * dimension], dimension), j);
    std::partial_sort(all.begin(), all.begin() + 20, all.end());
    if (labels[i] >= 250) {
      unknown.push_back(-all[0].first);
      continue;
    }
    ++known;
    std::size_t rank = 0;
    while (rank < 20 && people[all[rank].second] != labels[i]) ++rank;
    for (std::size_t r = 0; r < found.size(); ++r)
      found[r] += rank < static_cast<std::size_t>(reported_ranks[r]) ? 1 : 0;
    if (rank == 0) right.push_back(-all[0].first);
  }
  CHECK(result.known == known);
  CHECK(result.unknown == static_cast<std::int64_t>(unknown.size()));
  for (std::size_t r = 0; r < found.size(); ++r) CHECK(result.rates[r] == found[r] / static_cast<double>(known));
  CHECK(result.rates[0] < result.rates[3]);
  std::sort(unknown.begin(), unknown.end(), std::greater<>());
  REQUIRE(result.tpir_at_fpir.size() == 2);  // 200 unknown probes are too few for a rate of one in a thousand
  for (const TpirAtFpir& point : result.tpir_at_fpir) {
    const double refused = unknown[unknown.size() / (point.exponent == 1 ? 10 : 100)];
    const auto identified = std::count_if(right.begin(), right.end(), [&](double cosine) { return cosine > refused; });
    CHECK(point.tpir == static_cast<double>(identified) / static_cast<double>(known));
  }
}

TEST_CASE("equally near images are ranked in their order, and images without direction match no probe") {
  Device device(make_backend("cpu"));
  const std::vector<float> gallery{1, 0, 1, 0, 0, 0};
  const std::vector<float> probes{2, 0, 3, 0, std::numeric_limits<float>::quiet_NaN(), 0};
  const std::vector<std::int64_t> people{1, 2, 3};
  const std::vector<std::int64_t> labels{1, 2, 3};
  const Identification result = identify({gallery, people}, {probes, labels}, device);
  CHECK(result.known == 3);
  CHECK(result.rates[0] == close_to(1.0 / 3));
  CHECK(result.rates[1] == close_to(2.0 / 3));
  const std::vector<std::int64_t> other_people{7, 8, 9};
  CHECK_THROWS_WITH(identify({gallery, people}, {probes, other_people}, device),
                    "evaluation: none of 3 probes shows a person in the gallery");
}

TEST_CASE("a template is the mean of its media, each the mean of its images, scaled to length 1") {
  const std::vector<float> images{8, 0, 0, 2, 4, 6, 0, 5};
  // Template 0: a medium of images 0 and 1, mean (4, 1), and one of image 2, (4, 6): sum (8, 7). Template 1: image 3.
  const std::vector<TemplateImage> list{{.image = 3, .group = 1, .medium = 5},
                                        {.image = 0, .group = 0, .medium = 7},
                                        {.image = 2, .group = 0, .medium = 2},
                                        {.image = 1, .group = 0, .medium = 7}};
  const std::vector<float> templates = template_embeddings(images, 2, list, 2);
  REQUIRE(templates.size() == 4);
  const double length = std::sqrt(8.0 * 8 + 7 * 7);
  CHECK(templates[0] == close_to(8 / length));
  CHECK(templates[1] == close_to(7 / length));
  CHECK(templates[2] == 0);
  CHECK(templates[3] == 1);
  CHECK_THROWS_WITH(template_embeddings(images, 2, list, 3), "evaluation: template 2 of 3 has no image");
}

TEST_CASE("a plan of a search holds what the search holds") {
  constexpr std::int64_t dimension = 16;
  for (const auto& [gallery, probes] : {std::pair<std::int64_t, std::int64_t>{7, 3}, {70'000, 20}, {9'000, 1'100}}) {
    CAPTURE(gallery);
    Device device(make_backend("cpu", {.threads = 1}));
    RowTable rows(device, gallery, dimension);
    rows.append(random_rows(static_cast<std::size_t>(gallery * dimension), 4));
    const std::vector<float> probe_rows = random_rows(static_cast<std::size_t>(probes * dimension), 5);
    (void)nearest_rows(rows, {}, UnitRows(probe_rows, static_cast<std::size_t>(probes)), 2);
    Device planned(make_backend("plan", {.threads = 1, .planned = "cpu"}));
    plan_nearest_rows(planned, gallery, probes, dimension);
    CHECK(planned.meter().peak().total() == device.meter().peak().total());
  }
}

}  // namespace heddle::test::identification_test

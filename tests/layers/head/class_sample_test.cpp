// PartialFC's sample: published values, and independence of the rank that draws it.
#include "layers/head/class_sample.h"

#include <algorithm>
#include <numeric>
#include <set>

#include <doctest/doctest.h>

namespace heddle::test {

TEST_CASE("labels of a sample are Paddle's published ones") {
  const std::vector<std::int64_t> labels{10, 17, 15, 11, 9, 12, 18, 18, 17, 18, 19, 2, 8, 13, 11, 13, 9, 10, 0, 4};
  const SampleShape shape{20, 2, 0.6};
  std::vector<ClassSample> samples;
  for (int rank = 0; rank < 2; ++rank) samples.push_back(draw_sample(shape, shard(20, 2, rank), labels, {3}, 0));
  CHECK(samples[0].rows.size() == 6);
  const std::vector<std::int64_t> first = positives_of(labels, shard(20, 2, 0));
  CHECK(first == std::vector<std::int64_t>{0, 2, 4, 8, 9});
  CHECK(samples[1].rows.size() == 8);
  const std::vector<std::int64_t> second = positives_of(labels, shard(20, 2, 1));
  CHECK(second == std::vector<std::int64_t>{10, 11, 12, 13, 15, 17, 18, 19});
  CHECK(samples[1].rows == std::vector<std::int64_t>{0, 1, 2, 3, 5, 7, 8, 9});
  std::vector<std::int64_t> remapped;
  // Paddle has a shard's positives before its others.
  const auto place = [](const std::vector<std::int64_t>& positives, std::int64_t row) {
    return std::lower_bound(positives.begin(), positives.end(), row) - positives.begin();
  };
  for (const std::int64_t label : labels)
    remapped.push_back(label < 10 ? place(first, label) : 6 + place(second, label));
  CHECK(samples[0].position(8) >= 3);
  CHECK(samples[0].rows[static_cast<std::size_t>(samples[0].position(8))] == 8);
  CHECK(samples[1].position(-3) == -1);
  CHECK(remapped == std::vector<std::int64_t>{6, 11, 10, 7, 4, 8, 12, 12, 11, 12, 13, 1, 3, 9, 7, 9, 4, 6, 0, 2});
}

TEST_CASE("a sample is a function of step and labels, whatever ranges it is drawn in") {
  const std::vector<std::int64_t> labels{5, 99, 40, 41, 5};
  const SampleShape shape{103, 4, 0.25};
  const auto drawn = [&](int ranks, std::int64_t step) {
    std::set<std::int64_t> all;
    for (int rank = 0; rank < ranks; ++rank) {
      const IndexRange range = shard(shape.classes, ranks, rank);
      const ClassSample sample = draw_sample(shape, range, labels, {3}, step);
      for (const std::int64_t row : sample.rows) CHECK(all.insert(range.begin + row).second);
    }
    return all;
  };
  const std::set<std::int64_t> whole = drawn(1, 7);
  CHECK(whole.size() == 6 + 6 + 6 + 6);
  for (const std::int64_t label : labels) CHECK(whole.count(label) == 1);
  for (const int ranks : {2, 3, 4, 7}) CHECK(drawn(ranks, 7) == whole);
  CHECK(drawn(1, 8) != whole);
}

TEST_CASE("a sample is counted without being drawn, also by ranks that share a shard or have several") {
  const std::vector<std::int64_t> labels{5, 99, 40, 41, 5, 0, 1, 2, 3, 4, 6};
  for (const double rate : {0.0, 0.1, 0.25, 0.99})
    for (const std::int64_t shards : {1, 4, 8})
      for (const int ranks : {1, 2, 3, 8})
        for (int rank = 0; rank < ranks; ++rank) {
          const SampleShape shape{103, shards, rate};
          const IndexRange range = shard(shape.classes, ranks, rank);
          const ClassSample drawn = draw_sample(shape, range, labels, {3}, 7);
          CHECK(drawn.size == static_cast<std::int64_t>(drawn.rows.size()));
          CHECK(count_sample(shape, range, labels, {3}, 7).size == drawn.size);
        }
  CHECK(count_sample({1'000'000'000'000, 8, 0.1}, {0, 125'000'000'000}, labels, {3}, 0).size == 12'500'000'000);
}

TEST_CASE("a sample's size changes with the batch where a shard may have more of its classes than are wanted") {
  CHECK_FALSE(varies_in_size({1000, 4, 0.1}, 4, 25));
  CHECK(varies_in_size({1000, 4, 0.1}, 4, 26));
  CHECK(varies_in_size({1000, 4, 0.1}, 2, 25));  // two shards per rank: the same, but this case is not examined
  CHECK(varies_in_size({1000, 4, 0}, 4, 1));
  CHECK_FALSE(varies_in_size({1000, 4, 1}, 4, 5000));
  CHECK(varies_in_size({1000, 3, 0.1}, 3, 34));  // the smallest shard of 333 classes draws 33
}

TEST_CASE("rate 0 keeps the batch's classes alone, rate 1 all") {
  const std::vector<std::int64_t> labels{5, 9, 5};
  CHECK(draw_sample({20, 1, 0}, {0, 20}, labels, {3}, 0).rows == std::vector<std::int64_t>{5, 9});
  CHECK(draw_sample({20, 1, 1}, {0, 20}, labels, {3}, 0).rows.size() == 20);
}

TEST_CASE("every class that is not in the batch is drawn equally often") {
  const std::vector<std::int64_t> labels{5};
  std::vector<int> times(20);
  for (std::int64_t step = 0; step < 4000; ++step)
    for (const std::int64_t row : draw_sample({20, 1, 0.5}, {0, 20}, labels, {3}, step).rows)
      ++times[static_cast<std::size_t>(row)];
  CHECK(times[5] == 4000);
  // 9 of 19: 1894.7 expected, deviation 31.6.
  for (std::size_t i = 0; i < times.size(); ++i)
    if (i != 5) CHECK(std::abs(times[i] - 1894.7) < 5 * 31.6);
}

}  // namespace heddle::test

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

#include <doctest/doctest.h>

#include "experiments/data/sampler.h"
#include "framework/scalars/permutation.h"

namespace heddle::test {

TEST_CASE("a permutation has every element once, at any size, and a walk gives the same order") {
  for (const std::int64_t size : {1, 2, 3, 4, 5, 16, 17, 200, 1025}) {
    const Permutation permutation(size, {1}, Purpose::shuffle, 3);
    const Permutation walked(size, {1}, Purpose::shuffle, 3, true);
    std::set<std::int64_t> seen;
    for (std::int64_t i = 0; i < size; ++i) {
      seen.insert(permutation[i]);
      CHECK(walked[i] == permutation[i]);
    }
    CHECK(static_cast<std::int64_t>(seen.size()) == size);
    CHECK(*seen.begin() == 0);
    CHECK(*seen.rbegin() == size - 1);
  }
  const Permutation huge(100'000'000'000, {1}, Purpose::shuffle);
  CHECK(huge[99'999'999'999] < huge.size());
  CHECK_THROWS_WITH(huge[huge.size()], "position 100000000000 of a permutation of 100000000000 elements");
  CHECK_THROWS_WITH(Permutation(0, {1}, Purpose::shuffle),
                    "a permutation of 0 elements was asked for; at least 1 is needed");
}

TEST_CASE("every element comes to every position about equally often") {
  constexpr std::int64_t size = 7;
  constexpr int draws = 7000;
  std::vector<int> counts(size * size);
  for (int n = 0; n < draws; ++n) {
    const Permutation permutation(size, {5}, Purpose::shuffle, static_cast<std::uint64_t>(n));
    for (std::int64_t i = 0; i < size; ++i) ++counts[static_cast<std::size_t>(i * size + permutation[i])];
  }
  double chi_square = 0;
  for (const int count : counts) chi_square += (count - draws / 7.0) * (count - draws / 7.0) / (draws / 7.0);
  CHECK(chi_square < 70);  // 36 degrees of freedom: 1 in 1000 would pass 68
}

TEST_CASE("an epoch visits every sample once, and batches continue into the next epoch") {
  constexpr std::int64_t size = 23;
  std::vector<std::int64_t> drawn;
  for (std::int64_t step = 0; step < size; ++step) {
    const std::vector<std::int64_t> batch = batch_indices(size, 4, step, {2});
    CHECK(batch.size() == 4);
    drawn.insert(drawn.end(), batch.begin(), batch.end());
  }
  std::set<std::vector<std::int64_t>> epochs;
  for (auto first = drawn.begin(); first != drawn.end(); first += size) {
    std::vector<std::int64_t> epoch(first, first + size);
    CHECK(epochs.insert(epoch).second);
    std::sort(epoch.begin(), epoch.end());
    for (std::int64_t i = 0; i < size; ++i) CHECK(epoch[static_cast<std::size_t>(i)] == i);
  }
  CHECK(epochs.size() == 4);
}

TEST_CASE("a step's batch depends only on the seed and the step, and may be larger than the set") {
  CHECK(batch_indices(50, 8, 1000, {1}) == batch_indices(50, 8, 1000, {1}));
  CHECK(batch_indices(50, 8, 1000, {1}) != batch_indices(50, 8, 1000, {2}));
  const std::vector<std::int64_t> batch = batch_indices(3, 7, 0, {1});
  CHECK(batch.size() == 7);
  CHECK(std::accumulate(batch.begin(), batch.begin() + 6, std::int64_t{0}) == 6);
  // Half of a batch equals a batch of half the size: the sequence of samples does not depend on the batch.
  const std::vector<std::int64_t> half = batch_indices(50, 4, 7, {1});
  const std::vector<std::int64_t> whole = batch_indices(50, 8, 3, {1});
  CHECK(std::equal(half.begin(), half.end(), whole.begin() + 4));
  CHECK_THROWS_WITH(batch_indices(0, 4, 2, {1}),
                    "batch 2 of 4 samples from a set of 0: the set and the batch need a sample");
}

}  // namespace heddle::test

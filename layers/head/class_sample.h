// PartialFC's sample of the classes (An et al., "Partial FC: training 10 million identities on a single machine",
// 2021): all classes of the batch, filled up with uniformly drawn others to a share of the classes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "framework/scalars/random.h"
#include "parallel/communicator/shard.h"

namespace heddle {

/// The classes fall to so many shards (shard.h), each of which is sampled by itself: the sample is a function of these
/// and of the batch, not of who draws which part of it.
struct SampleShape {
  std::int64_t classes = 0;
  std::int64_t shards = 1;
  double rate = 1;
  bool corrects = false;  // whether ClassSample::corrections is wanted
};

/// Whether the number of classes that one of so many ranks samples can change from batch to batch: not where each rank
/// has one shard, and fills it up whatever the batch's classes are.
bool varies_in_size(const SampleShape& shape, std::int64_t ranks, std::int64_t batch);

/// Of so many classes a sample has no fewer.
std::int64_t sampled_of(double rate, std::int64_t classes);

/// What of a sample lies in a range of the classes, counted from the range's begin.
struct ClassSample {
  std::int64_t size = 0;                  // how many rows there are
  std::vector<std::int64_t> rows{};       // ascending
  std::vector<std::int64_t> positives{};  // those of them that are the batch's, ascending
  /// Of each row -ln of the probability that it was drawn, 0 of the batch's: added to its logit, it makes the sum of
  /// exponentials over the sample an unbiased estimate of that over all classes.
  std::vector<double> corrections{};

  /// Where a class of the batch, counted from the range's begin, stands in `rows`; -1: it lies outside the range.
  std::int64_t position(std::int64_t row) const;
};

/// A shard of n classes, p of them in the batch, gives max(p, int(rate * n)) of them. `labels`: of the global batch,
/// each in [0, classes).
ClassSample draw_sample(const SampleShape& shape, const ShardRange& range, std::span<const std::int64_t> labels,
                        RandomKey key, std::int64_t step);

/// Only the size of that sample, which takes no time where the range is made of whole shards.
ClassSample count_sample(const SampleShape& shape, const ShardRange& range, std::span<const std::int64_t> labels,
                         RandomKey key, std::int64_t step);

}  // namespace heddle

// PartialFC's sample of the classes (An et al., "Partial FC: training 10 million identities on a single machine",
// 2021): all classes of the batch, and uniformly drawn others that fill the sample up to a share of all classes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "framework/scalars/random.h"
#include "parallel/communicator/shard.h"

namespace heddle {

/// The classes are divided into shards (shard.h), each of which is sampled separately: the sample depends on these and
/// on the batch, but not on which rank draws which part of it.
struct SampleShape {
  std::int64_t classes = 0;
  std::int64_t shards = 1;
  double rate = 1;
  bool corrects = false;  // whether to compute ClassSample::corrections
};

/// Whether the number of classes that one rank samples can change from batch to batch. It cannot if each rank has one
/// shard and fills it up whatever the batch's classes are. `ranks`: the number that share the classes equally.
bool varies_in_size(const SampleShape& shape, std::int64_t ranks, std::int64_t batch);

/// The smallest size of a sample of this many classes.
std::int64_t sampled_of(double rate, std::int64_t classes);

/// The part of a sample that lies in a range of the classes, counted from the beginning of the range.
struct ClassSample {
  std::int64_t size = 0;             // the number of rows
  std::vector<std::int64_t> rows{};  // ascending
  /// One per class, also where a class has several rows, one for each centre: -ln of the probability that the class was
  /// drawn; 0 for the batch's classes. Added to the class's logit, it makes the sum of exponentials over the sample an
  /// unbiased estimate of the sum over all classes.
  std::vector<double> corrections{};

  /// The index in `rows` of a class of the batch, which is counted from the beginning of the range; -1 if it lies
  /// outside the range.
  std::int64_t position(std::int64_t row) const;
};

/// The batch's classes in a range, ascending and once each.
std::vector<std::int64_t> positives_of(std::span<const std::int64_t> labels, const IndexRange& range);

/// Draws max(p, int(rate * n)) classes of a shard of n classes, of which p are in the batch. `labels` are those of the
/// global batch, each in [0, classes).
ClassSample draw_sample(const SampleShape& shape, const IndexRange& range, std::span<const std::int64_t> labels,
                        RandomKey key, std::int64_t step);

/// Only the size of that sample, which takes no time if the range consists of whole shards.
ClassSample count_sample(const SampleShape& shape, const IndexRange& range, std::span<const std::int64_t> labels,
                         RandomKey key, std::int64_t step);

}  // namespace heddle

// The batches of a training: which sample of which data set is at which position of a step's global batch. The
// positions of a set follow its own shuffles (sampler.h), so that no set's order depends on the others.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "experiments/data/dataset.h"
#include "framework/tensors/batch_shares.h"

namespace heddle {

class TrainingBatches {
 public:
  /// `shares` are those of the data's sets; `batch` is the size of a global batch.
  TrainingBatches(const Dataset& dataset, BatchShares shares, std::int64_t batch, RandomKey key);

  const BatchShares& shares() const { return shares_; }
  /// The number of a set's samples in each batch.
  std::int64_t samples_of(std::size_t set) const { return shares_.before(set, batch_); }
  /// The sample at a position of a step's batch.
  TrainingSample sample(std::int64_t step, std::int64_t position) const;
  /// The index of each sample of a step's batch within its set.
  std::vector<std::int64_t> indices(std::int64_t step) const;
  /// The labels, within their sets, of some positions of a batch whose indices are known.
  std::vector<std::int64_t> labels(std::span<const std::int64_t> indices, const IndexRange& positions) const;
  /// The weights of a set's samples at some positions of a batch whose indices are known; empty if all of the set's
  /// weights are 1.
  std::vector<double> weights(std::size_t set, std::span<const std::int64_t> indices,
                              const IndexRange& positions) const;

 private:
  std::int64_t size_of(std::size_t set) const { return dataset_.set(set).size(Split::train); }

  const Dataset& dataset_;
  BatchShares shares_;
  std::int64_t batch_;
  RandomKey key_;
};

}  // namespace heddle

#include "experiments/data/training_batches.h"

#include <utility>

#include "experiments/data/data_config.h"
#include "experiments/data/sampler.h"
#include "framework/error.h"

namespace heddle {

TrainingBatches::TrainingBatches(const Dataset& dataset, BatchShares shares, std::int64_t batch, RandomKey key)
    : dataset_(dataset), shares_(std::move(shares)), batch_(batch), key_(key) {
  if (dataset.sets() != shares_.sets())
    fail("{} data sets have the shares of {} in a batch", dataset.sets(), shares_.sets());
}

TrainingSample TrainingBatches::sample(std::int64_t step, std::int64_t position) const {
  const std::size_t set = shares_.set_of(position);
  const std::int64_t index =
      batch_index(size_of(set), samples_of(set), step, shares_.before(set, position), key_of_set(key_, set));
  return {.index = index, .step = step, .position = position, .set = set};
}

std::vector<std::int64_t> TrainingBatches::indices(std::int64_t step) const {
  std::vector<std::int64_t> all(static_cast<std::size_t>(batch_));
  for (std::size_t set = 0; set < shares_.sets(); ++set) {
    if (samples_of(set) == 0) continue;
    const std::vector<std::int64_t> own = batch_indices(size_of(set), samples_of(set), step, key_of_set(key_, set));
    auto next = own.begin();
    for (const std::int64_t place : shares_.places(set, {0, batch_})) all[static_cast<std::size_t>(place)] = *next++;
  }
  return all;
}

std::vector<std::int64_t> TrainingBatches::labels(std::span<const std::int64_t> indices,
                                                  const IndexRange& positions) const {
  std::vector<std::int64_t> labels;
  labels.reserve(static_cast<std::size_t>(positions.size));
  for (std::int64_t position = positions.begin; position < positions.end(); ++position)
    labels.push_back(
        dataset_.set(shares_.set_of(position)).label(Split::train, indices[static_cast<std::size_t>(position)]));
  return labels;
}

std::vector<double> TrainingBatches::weights(std::size_t set, std::span<const std::int64_t> indices,
                                             const IndexRange& positions) const {
  const Dataset& data = dataset_.set(set);
  std::vector<double> weights;
  if (!data.has_weights()) return weights;
  for (const std::int64_t place : shares_.places(set, positions))
    weights.push_back(data.weight(indices[static_cast<std::size_t>(positions.begin + place)]));
  return weights;
}

}  // namespace heddle

// Which samples the ranks of a head without a backbone see, and their rows.
#pragma once

#include <cstdint>
#include <vector>

#include "layers/head/head_config.h"
#include "parallel/communicator/shard.h"
#include "parallel/placement/mesh.h"

namespace heddle::test {

/// The samples of a rank in a micro-batch: the last pipeline stage's ranks see them in the order of dp and tp, others
/// see none.
inline IndexRange samples_of(const Mesh& mesh, int rank, std::int64_t batch, std::int64_t micro_batches,
                             std::int64_t index) {
  const Mesh::Coordinates at = mesh.coordinates(rank);
  if (at.pp + 1 < mesh.size(Axis::pp)) return {};
  const int ranks = mesh.size({Axis::dp, Axis::tp});
  return shard(batch, micro_batches * ranks, index * ranks + at.dp * mesh.size(Axis::tp) + at.tp);
}

/// The samples of all ranks that share the classes with one rank, as in HeadInput.
inline std::vector<IndexRange> shared_samples(const HeadConfig& head, const Mesh& mesh, int rank, std::int64_t batch,
                                              std::int64_t micro_batches, std::int64_t index) {
  std::vector<IndexRange> samples;
  for (const int sharing : mesh.ranks_over(head.class_axes(), rank))
    samples.push_back(samples_of(mesh, sharing, batch, micro_batches, index));
  return samples;
}

/// Selects rows of `width` values.
inline std::vector<double> part(const std::vector<double>& all, std::int64_t width, const IndexRange& rows) {
  return {all.begin() + rows.begin * width, all.begin() + rows.end() * width};
}

/// The weights of these samples, as in HeadInput; none if there are none.
inline std::vector<double> weights_of(const std::vector<IndexRange>& samples, const std::vector<double>& all) {
  std::vector<double> weights;
  if (all.empty()) return weights;
  for (const IndexRange& range : samples)
    weights.insert(weights.end(), all.begin() + range.begin, all.begin() + range.end());
  return weights;
}

}  // namespace heddle::test

// Tensors sharded by elements: rank r of a communicator holds part r of the elements in row-major order, whatever the
// shape. Optimizers shard their state in this way (ZeRO-1), as do weights that are gathered before use (ZeRO-3:
// Rajbhandari et al., "ZeRO: memory optimizations toward training trillion parameter models", 2020).
#pragma once

#include <cstdint>
#include <vector>

#include "framework/tensors/tensor.h"
#include "parallel/communicator/communicator.h"
#include "parallel/communicator/shard.h"

namespace heddle {

/// The elements that rank `rank` holds of `whole`: shard(numel, ranks, rank).
IndexRange flat_range(const Tensor& whole, const Communicator& ranks, int rank);
/// This rank's elements as a view [size]; the tensor itself if there is only one rank.
Tensor flat_shard(const Tensor& whole, const Communicator& ranks);

/// A tensor of which each rank has changed its flat shard.
struct FlatSharded {
  Tensor whole;
  Communicator* ranks = nullptr;
};
/// Gathers the shards, so that every rank has all elements. All ranks call it with the same list; small tensors are
/// gathered together, up to `bucket_bytes` at a time.
void gather_shards(const std::vector<FlatSharded>& tensors, std::int64_t bucket_bytes);

}  // namespace heddle

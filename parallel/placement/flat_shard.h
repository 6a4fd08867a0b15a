// Tensors sharded by elements: rank r of a communicator holds part r of the elements in row-major order, whatever the
// shape. So optimizers shard their state (ZeRO-1) and weights are kept that are gathered before use (ZeRO-3:
// Rajbhandari et al., "ZeRO: memory optimizations toward training trillion parameter models", 2020).
#pragma once

#include <cstdint>
#include <vector>

#include "framework/tensors/tensor.h"
#include "parallel/communicator/communicator.h"
#include "parallel/communicator/shard.h"

namespace heddle {

/// The elements that rank `rank` holds of `whole`: shard(numel, ranks, rank).
ShardRange flat_range(const Tensor& whole, const Communicator& ranks, int rank);
/// This rank's, as a view [size]; over one rank the tensor as it is.
Tensor flat_shard(const Tensor& whole, const Communicator& ranks);

/// A tensor of which each rank has changed its flat shard.
struct FlatSharded {
  Tensor whole;
  Communicator* ranks = nullptr;
};
/// Makes them whole again, every element as its own rank has it. All ranks call it with the same list; small tensors
/// travel together, up to `bucket_bytes` at a time.
void gather_shards(const std::vector<FlatSharded>& tensors, std::int64_t bucket_bytes);

}  // namespace heddle

#include "parallel/placement/flat_shard.h"

#include <span>

#include "framework/tensors/device.h"

namespace heddle {

namespace {

Tensor flat_rows_of(const Tensor& x, const IndexRange& range) {
  return x.reshape({x.numel()}).rows(range.begin, range.end());
}

/// This rank's shards side by side; without a copy if there is one.
Tensor pack(std::span<const FlatSharded> bucket) {
  if (bucket.size() == 1) return flat_shard(bucket[0].whole, *bucket[0].ranks);
  std::int64_t elements = 0;
  for (const FlatSharded& x : bucket) elements += flat_shard(x.whole, *x.ranks).numel();
  const Tensor all = Tensor::empty(bucket[0].whole.device(), {elements}, bucket[0].whole.dtype());
  std::int64_t at = 0;
  for (const FlatSharded& x : bucket) {
    const Tensor mine = flat_shard(x.whole, *x.ranks);
    all.rows(at, at + mine.numel()).copy_from(mine);
    at += mine.numel();
  }
  return all;
}

void gather_bucket(std::span<const FlatSharded> bucket) {
  Communicator& ranks = *bucket[0].ranks;
  const MemoryScope scope(bucket[0].whole.device(), Category::communication);
  const Tensor all = ranks.all_gather(pack(bucket));
  std::int64_t at = 0;
  for (int rank = 0; rank < ranks.size(); ++rank)
    for (const FlatSharded& x : bucket) {
      const IndexRange range = flat_range(x.whole, ranks, rank);
      if (rank != ranks.rank()) flat_rows_of(x.whole, range).copy_from(all.rows(at, at + range.size));
      at += range.size;
    }
}

}  // namespace

IndexRange flat_range(const Tensor& whole, const Communicator& ranks, int rank) {
  return shard(whole.numel(), ranks.size(), rank);
}

Tensor flat_shard(const Tensor& whole, const Communicator& ranks) {
  return ranks.size() == 1 ? whole : flat_rows_of(whole, flat_range(whole, ranks, ranks.rank()));
}

void gather_shards(const std::vector<FlatSharded>& tensors, std::int64_t bucket_bytes) {
  const std::span all(tensors);
  for (std::size_t begin = 0; begin < all.size();) {
    std::size_t end = begin;
    for (std::int64_t bytes = 0; end < all.size(); ++end) {
      bytes += all[end].whole.bytes();
      const bool fits = all[end].ranks == all[begin].ranks && all[end].whole.dtype() == all[begin].whole.dtype() &&
                        bytes <= bucket_bytes;
      if (end > begin && !fits) break;
    }
    if (all[begin].ranks->size() > 1) gather_bucket(all.subspan(begin, end - begin));
    begin = end;
  }
}

}  // namespace heddle

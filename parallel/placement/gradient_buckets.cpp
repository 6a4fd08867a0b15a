#include "parallel/placement/gradient_buckets.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "framework/error.h"
#include "framework/tensors/device.h"
#include "parallel/placement/flat_shard.h"

namespace heddle {

namespace {

Tensor flat(const Tensor& x) {
  return x.reshape({x.numel()});
}

}  // namespace

GradientBuckets::GradientBuckets(std::vector<PartialGradient> gradients, std::int64_t bucket_bytes) {
  for (PartialGradient& gradient : gradients)
    if (gradient.ranks->size() > 1) members_.push_back({std::move(gradient)});
  assign(bucket_bytes);
}

void GradientBuckets::assign(std::int64_t bucket_bytes) {
  // Gradients that are reduced over the same ranks in the same way may share a bucket.
  using Kind = std::tuple<Communicator*, DType, bool>;
  std::map<Kind, std::vector<std::size_t>> open;
  std::vector<std::vector<std::size_t>> closed;
  const auto bytes_of = [this](const std::vector<std::size_t>& members) {
    return std::accumulate(members.begin(), members.end(), std::int64_t{0},
                           [this](std::int64_t sum, std::size_t m) { return sum + members_[m].gradient.bytes(); });
  };
  for (std::size_t m = members_.size(); m-- > 0;) {
    const PartialGradient& gradient = members_[m].gradient;
    if (gradient.bytes() >= bucket_bytes) {
      closed.push_back({m});
      continue;
    }
    std::vector<std::size_t>& bucket = open[{gradient.ranks, gradient.dtype(), gradient.sharded}];
    if (bytes_of(bucket) + gradient.bytes() > bucket_bytes) closed.push_back(std::exchange(bucket, {}));
    bucket.push_back(m);
  }
  for (auto& [kind, bucket] : open)
    if (!bucket.empty()) closed.push_back(std::move(bucket));
  // The bucket whose last gradient is expected first comes first; the order must not depend on addresses in the map.
  std::sort(closed.begin(), closed.end(), [](const auto& a, const auto& b) { return a.back() > b.back(); });
  bucket_of_.resize(members_.size());
  for (std::vector<std::size_t>& members : closed) {
    for (const std::size_t m : members) bucket_of_[m] = buckets_.size();
    Bucket bucket;
    bucket.members = std::move(members);
    buckets_.push_back(std::move(bucket));
  }
}

GradientBuckets::~GradientBuckets() {
  if (is_listening_) stop_listening();
}

void GradientBuckets::stop_listening() {
  for (const Member& member : members_) member.gradient.accumulator->when_ready({});
  is_listening_ = false;
}

void GradientBuckets::begin() {
  next_ = 0;
  for (Bucket& bucket : buckets_) bucket.missing = bucket.members.size();
  is_listening_ = true;
  for (std::size_t m = 0; m < members_.size(); ++m) {
    members_[m].is_ready = false;
    members_[m].gradient.accumulator->when_ready([this, m] { ready(m); });
  }
}

void GradientBuckets::start_complete() {
  for (std::size_t m = 0; m < members_.size(); ++m)
    if (members_[m].gradient.accumulator->pending_readers() == 0) ready(m);
}

void GradientBuckets::ready(std::size_t member) {
  if (std::exchange(members_[member].is_ready, true)) return;
  --buckets_[bucket_of_[member]].missing;
  while (next_ < buckets_.size() && buckets_[next_].missing == 0) start(buckets_[next_++]);
}

std::vector<std::int64_t> GradientBuckets::shard_sizes(const Bucket& bucket) const {
  const Communicator& ranks = *first_of(bucket).ranks;
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(ranks.size()));
  for (int rank = 0; rank < ranks.size(); ++rank)
    for (const std::size_t m : bucket.members)
      sizes[static_cast<std::size_t>(rank)] += flat_range(members_[m].gradient.weight, ranks, rank).size;
  return sizes;
}

Tensor GradientBuckets::pack(const Bucket& bucket) {
  const PartialGradient& first = first_of(bucket);
  if (bucket.members.size() == 1 && first.accumulator->gradient().defined()) {
    const Tensor alone = flat(first.accumulator->gradient());
    first.accumulator->clear();
    return alone;
  }
  std::int64_t elements = 0;
  for (const std::size_t m : bucket.members) elements += members_[m].gradient.weight.numel();
  const Tensor all = Tensor::empty(first.weight.device(), {elements}, first.dtype());
  // Without shards there is one part, which has every gradient as a whole. With shards, the first part has rank 0's
  // elements of each gradient, the second rank 1's, and so on.
  const int parts = first.sharded ? first.ranks->size() : 1;
  std::int64_t at = 0;
  for (int part = 0; part < parts; ++part)
    for (const std::size_t m : bucket.members) {
      const PartialGradient& gradient = members_[m].gradient;
      const IndexRange range = shard(gradient.weight.numel(), parts, part);
      Tensor to = all.rows(at, at + range.size);
      at += range.size;
      const Tensor& from = gradient.accumulator->gradient();
      if (!from.defined())
        to.fill(0);
      else
        to.copy_from(flat(from).rows(range.begin, range.end()));
      if (part + 1 == parts) gradient.accumulator->clear();
    }
  return all;
}

void GradientBuckets::start(Bucket& bucket) {
  const PartialGradient& first = first_of(bucket);
  const MemoryScope scope(first.weight.device(), Category::communication);
  Communicator& ranks = *first.ranks;
  bucket.elements = pack(bucket);
  if (first.sharded) {
    bucket.scattering = ranks.reduce_scatter(bucket.elements, shard_sizes(bucket));
    bucket.elements = Tensor();
  } else {
    bucket.reducing = ranks.all_reduce_in_place(bucket.elements);
  }
}

Tensor GradientBuckets::wait(Bucket& bucket) {
  if (bucket.scattering) return std::exchange(bucket.scattering, {})->wait();
  std::exchange(bucket.reducing, {})->wait();
  return std::exchange(bucket.elements, Tensor());
}

void GradientBuckets::complete(Bucket& bucket) {
  const Tensor sum = wait(bucket);
  sum.storage()->recategorize(Category::gradients);
  std::int64_t at = 0;
  for (const std::size_t m : bucket.members) {
    const PartialGradient& gradient = members_[m].gradient;
    if (gradient.accumulator->gradient().defined())
      fail("gradient buckets: a gradient {} arrived after its reduction had started", to_string(gradient.weight));
    const std::int64_t size =
        gradient.sharded ? flat_shard(gradient.weight, *gradient.ranks).numel() : gradient.weight.numel();
    const Tensor view = sum.rows(at, at + size);
    gradient.accumulator->set(gradient.sharded ? view : view.reshape(gradient.weight.shape().dimensions()));
    at += size;
  }
}

void GradientBuckets::finish() {
  if (!is_listening_) fail("gradient buckets: finish without begin");
  stop_listening();
  while (next_ < buckets_.size()) start(buckets_[next_++]);
  for (Bucket& bucket : buckets_) complete(bucket);
}

}  // namespace heddle

// Sums gradients over ranks in buckets that go under way while the backward pass is still computing (Li et al.,
// "PyTorch Distributed: experiences on accelerating data parallel training", 2020), and for ZeRO-1 in shards.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "framework/autograd/autograd.h"
#include "parallel/communicator/communicator.h"

namespace heddle {

/// A gradient that is a sum over ranks.
struct PartialGradient {
  /// What it is the gradient of: gives its shape, dtype and device.
  Tensor weight;
  std::shared_ptr<Accumulator> accumulator;
  Communicator* ranks = nullptr;
  /// Only the flat_shard is wanted: that is the shape in which it comes back.
  bool sharded = false;
};

/// All ranks make the same calls. Per step: `begin` before the last backward pass, `finish` after it.
class GradientBuckets {
 public:
  /// Gradients in model order; that of the last is expected first. A gradient of at least `bucket_bytes` is a bucket of
  /// its own and needs no copy; smaller ones are copied side by side. Communicators of one rank are left out.
  GradientBuckets(std::vector<PartialGradient> gradients, std::int64_t bucket_bytes);
  ~GradientBuckets();
  GradientBuckets(const GradientBuckets&) = delete;
  GradientBuckets& operator=(const GradientBuckets&) = delete;

  /// From now on a bucket starts when each of its gradients has had its last reader walked and the buckets before it
  /// have started: the same order on all ranks.
  void begin();
  /// After `begin`, where all forward passes were made whose backward is still to come: gradients without readers, of
  /// stages that are done or of input parts, are complete.
  void start_complete();
  /// Starts what did not start, waits, and gives the accumulators their sums: views of the buckets, charged to
  /// Category::gradients. A gradient that never came counts as zeros.
  void finish();

  std::size_t buckets() const { return buckets_.size(); }
  /// Under way or done since `begin`.
  std::size_t started() const { return next_; }

 private:
  struct Member {
    PartialGradient gradient;
    bool is_ready = false;
  };
  struct Bucket {
    std::vector<std::size_t> members;
    std::size_t missing = 0;
    /// Under way: summed in place, or to be scattered.
    Tensor elements;
    std::optional<Work<void>> reducing;
    std::optional<Work<Tensor>> scattering;
  };

  void assign(std::int64_t bucket_bytes);
  void stop_listening();
  void ready(std::size_t member);
  void start(Bucket& bucket);
  Tensor wait(Bucket& bucket);
  void complete(Bucket& bucket);
  const PartialGradient& first_of(const Bucket& bucket) const { return members_[bucket.members.front()].gradient; }
  /// How many elements of the bucket rank r gets.
  std::vector<std::int64_t> shard_sizes(const Bucket& bucket) const;
  /// The bucket's elements side by side; the accumulators are left empty.
  Tensor pack(const Bucket& bucket);

  std::vector<Member> members_;
  std::vector<std::size_t> bucket_of_;
  std::vector<Bucket> buckets_;  // in the order in which they start
  std::size_t next_ = 0;
  bool is_listening_ = false;
};

}  // namespace heddle

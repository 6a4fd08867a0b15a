// Sums gradients over ranks in buckets, whose reductions start while the backward pass is still computing (Li et al.,
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
  /// The parameter whose gradient it is, with its shape, dtype and device.
  Tensor weight;
  std::shared_ptr<Accumulator> accumulator;
  Communicator* ranks = nullptr;
  /// Whether only this rank's flat_shard of the sum is wanted, in whose shape the sum is returned.
  bool sharded = false;
  std::optional<DType> type{};  // of the gradient, if it is not the parameter's

  DType dtype() const { return type.value_or(weight.dtype()); }
  std::int64_t bytes() const { return weight.numel() * static_cast<std::int64_t>(size_of(dtype())); }
};

/// All ranks make the same calls. Per step: `begin` before the last backward pass, `finish` after it.
class GradientBuckets {
 public:
  /// Gradients in model order; the last one is expected first. A gradient of at least `bucket_bytes` is a bucket of its
  /// own and needs no copy; smaller ones are copied side by side. Communicators of one rank are left out.
  GradientBuckets(std::vector<PartialGradient> gradients, std::int64_t bucket_bytes);
  ~GradientBuckets();
  GradientBuckets(const GradientBuckets&) = delete;
  GradientBuckets& operator=(const GradientBuckets&) = delete;

  /// From now on a bucket starts once the last reader of each of its gradients has been visited and the buckets before
  /// it have started, so that all ranks have the same order.
  void begin();
  /// Called after `begin`, when all forward passes have been made whose backward passes are still to come: gradients
  /// without readers, of finished stages or of input parts, are then complete.
  void start_complete();
  /// Starts the remaining buckets, waits for all of them, and stores the sums in the accumulators: views of the
  /// buckets, charged to Category::gradients. A gradient that never arrived counts as zeros.
  void finish();

  std::size_t buckets() const { return buckets_.size(); }
  /// The number of buckets that have started since `begin`.
  std::size_t started() const { return next_; }

 private:
  struct Member {
    PartialGradient gradient;
    bool is_ready = false;
  };
  struct Bucket {
    std::vector<std::size_t> members;
    std::size_t missing = 0;
    /// A bucket that has started: it is summed in place, or scattered.
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
  /// The number of the bucket's elements that rank r gets.
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

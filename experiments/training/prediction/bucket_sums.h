// The time of the sums of a rank's gradients, which GradientBuckets starts while the last backward is still computing.
// `ready` and `end()` are seconds since the beginning of the step; the others are durations.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <utility>

#include "parallel/communicator/link_model.h"
#include "parallel/placement/mesh.h"

namespace heddle {

class BucketSums {
 public:
  /// `operation`: all_reduce, or reduce_scatter for a sharded optimizer. `copy_seconds_per_byte`: of a byte that is
  /// copied into a bucket. `spread_over`: how the ranks along these axes are spread over the nodes.
  BucketSums(const LinkModel& links, Operation operation, std::int64_t bucket_bytes, double copy_seconds_per_byte,
             std::function<NodeSpread(AxisSet)> spread_over)
      : links_(links),
        operation_(operation),
        bucket_bytes_(bucket_bytes),
        copy_seconds_per_byte_(copy_seconds_per_byte),
        spread_over_(std::move(spread_over)) {}

  /// Adds a gradient that is complete at this time. Gradients come in the order in which they are computed.
  void add(AxisSet axes, std::int64_t bytes, double ready);
  /// Starts the buckets that are not full.
  void finish();

  /// The end of the last sum; 0 if there are none.
  double end() const { return end_; }
  /// What the messages of all sums take together.
  double message_seconds() const { return message_seconds_; }
  /// What the copies into buckets take together, by which the backward ends later.
  double copy_seconds() const { return copy_seconds_; }

 private:
  struct Bucket {
    std::int64_t bytes = 0;
    int gradients = 0;
    double ready = 0;
    double previous_end = 0;  // of the sum before: those over the same axes follow each other
  };
  void start(AxisSet axes);

  const LinkModel& links_;
  Operation operation_;
  std::int64_t bucket_bytes_;
  double copy_seconds_per_byte_;
  std::function<NodeSpread(AxisSet)> spread_over_;
  std::array<Bucket, AxisSet::count> open_{};  // by AxisSet::index()
  double end_ = 0;
  double message_seconds_ = 0;
  double copy_seconds_ = 0;
};

}  // namespace heddle

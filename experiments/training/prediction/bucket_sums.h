// The time of the sums of a rank's gradients, which GradientBuckets starts while the last backward is still computing.
// All times are seconds since the begin of the step.
#pragma once

#include <array>
#include <cstdint>
#include <functional>

#include "parallel/communicator/link_model.h"
#include "parallel/placement/mesh.h"

namespace heddle {

class BucketSums {
 public:
  /// `operation`: all_reduce, or reduce_scatter for a sharded optimizer. `copy_seconds`: of a byte that is copied into
  /// a bucket.
  BucketSums(const LinkModel& links, Operation operation, std::int64_t bucket_bytes, double copy_seconds,
             std::function<NodeSpread(AxisSet)> ranks)
      : links_(links),
        operation_(operation),
        bucket_bytes_(bucket_bytes),
        copy_seconds_(copy_seconds),
        ranks_(std::move(ranks)) {}

  /// Adds a gradient that is complete at this time. Gradients come in the order in which they are computed.
  void add(AxisSet axes, std::int64_t bytes, double ready);
  /// Starts the buckets that are not full.
  void finish();

  /// The end of the last sum; 0 if there are none.
  double end() const { return end_; }
  /// The seconds that the messages of all sums take together.
  double seconds() const { return seconds_; }
  /// The seconds of the copies into buckets, by which the backward ends later.
  double copying() const { return copying_; }

 private:
  struct Bucket {
    std::int64_t bytes = 0;
    int gradients = 0;
    double ready = 0;
    double end_of_others = 0;  // those over the same axes follow each other
  };
  void start(AxisSet axes);

  const LinkModel& links_;
  Operation operation_;
  std::int64_t bucket_bytes_;
  double copy_seconds_;
  std::function<NodeSpread(AxisSet)> ranks_;
  std::array<Bucket, AxisSet::count> open_{};  // by AxisSet::index()
  double end_ = 0;
  double seconds_ = 0;
  double copying_ = 0;
};

}  // namespace heddle

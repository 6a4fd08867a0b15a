#include "experiments/training/prediction/bucket_sums.h"

#include <algorithm>

namespace heddle {

void BucketSums::add(AxisSet axes, std::int64_t bytes, double ready) {
  Bucket& bucket = open_.at(axes.index());
  if (bucket.bytes + bytes > bucket_bytes_) start(axes);
  bucket.bytes += bytes;
  ++bucket.gradients;
  bucket.ready = ready;
}

void BucketSums::finish() {
  for (unsigned index = 0; index < open_.size(); ++index) start(AxisSet::of_index(index));
}

void BucketSums::start(AxisSet axes) {
  Bucket& bucket = open_.at(axes.index());
  if (bucket.bytes == 0) return;
  const double seconds = collective_seconds(links_, operation_, bucket.bytes, spread_over_(axes));
  if (bucket.gradients > 1)  // one alone needs no copy
    copy_seconds_ += copy_seconds_per_byte_ * static_cast<double>(bucket.bytes);
  bucket.previous_end = std::max(bucket.previous_end, bucket.ready + copy_seconds_) + seconds;
  bucket.bytes = 0;
  bucket.gradients = 0;
  message_seconds_ += seconds;
  end_ = std::max(end_, bucket.previous_end);
}

}  // namespace heddle

// The classes of a head that take part in a step, and the labels as columns of these.
#pragma once

#include <cstdint>
#include <future>
#include <span>

#include "layers/head/class_sample.h"
#include "layers/head/head_config.h"

namespace heddle {

class HeadSample {
 public:
  /// `range`: this rank's part of the classes, which `ranks` ranks share. `draws_aside`: whether classes are drawn
  /// while the layers before the head compute. With a virtual clock, which measures the rank's own thread only, they
  /// are drawn when they are needed.
  HeadSample(const HeadConfig& config, const IndexRange& range, std::int64_t ranks, RandomKey key, Device& device,
             bool draws_aside);

  /// From the next step on, classes are sampled in this number of shards.
  void set_shards(std::int64_t shards) { shape_.shards = shards; }
  /// Begins to draw the sample of a step. `labels` are those of the global batch.
  void begin_step(std::int64_t step, std::span<const std::int64_t> labels);
  /// Waits for the sample that begin_step draws; false if there is none, or it was taken before.
  bool take();
  /// The rows that were drawn: ascending, with all centres of a class.
  const ClassSample& drawn() const { return drawn_; }
  /// The same on the device, [n].
  Tensor index() const;
  /// What is added to the logits of the drawn classes; undefined if nothing is.
  Tensor corrections(DType dtype) const;
  /// Labels as columns of the drawn classes; labels of classes that were not drawn here lie outside these columns.
  Tensor columns_of(const Tensor& labels) const;
  void clear() { drawn_ = {}; }

 private:
  const HeadConfig& config_;
  IndexRange range_;
  SampleShape shape_;
  RandomKey key_;
  Device& device_;
  bool draws_aside_;
  std::future<ClassSample> drawing_;
  ClassSample drawn_;
};

}  // namespace heddle

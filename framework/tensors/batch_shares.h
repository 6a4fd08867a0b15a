// How the samples of every batch are divided over the data sets of a training. With shares of 2 and 1, the positions
// 0, 1, 3, 4, 6, .. of the batch belong to the first set, and 2, 5, 8, .. to the second: which set a sample belongs to
// depends on its position alone, and so on no layout.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "framework/tensors/index_range.h"

namespace heddle {

class BatchShares {
 public:
  /// One set, to which all samples belong.
  BatchShares() : BatchShares({1}) {}
  /// Among each `period()` consecutive samples, the sets have their shares, each at least 1, in the order of the sets.
  explicit BatchShares(std::vector<std::int64_t> shares) : shares_(std::move(shares)) {
    for (const std::int64_t share : shares_) {
      begins_.push_back(period_);
      period_ += share;
    }
  }

  std::size_t sets() const { return shares_.size(); }
  std::int64_t period() const { return period_; }
  std::size_t set_of(std::int64_t position) const {
    const std::int64_t place = position % period_;
    std::size_t set = 0;
    while (place >= begins_[set] + shares_[set]) ++set;
    return set;
  }
  /// The number of a set's samples before a position. For a sample of the set it is the sample's number within the set.
  std::int64_t before(std::size_t set, std::int64_t position) const {
    const std::int64_t in_period = std::clamp<std::int64_t>(position % period_ - begins_[set], 0, shares_[set]);
    return position / period_ * shares_[set] + in_period;
  }
  /// The set's samples among some positions, by their numbers within the set.
  IndexRange within(std::size_t set, const IndexRange& positions) const {
    const std::int64_t begin = before(set, positions.begin);
    return {begin, before(set, positions.end()) - begin};
  }
  /// The places of the set's samples among some positions, counted from the first position.
  std::vector<std::int64_t> places(std::size_t set, const IndexRange& positions) const {
    std::vector<std::int64_t> places;
    for (std::int64_t i = 0; i < positions.size; ++i)
      if (set_of(positions.begin + i) == set) places.push_back(i);
    return places;
  }

 private:
  std::vector<std::int64_t> shares_;
  std::vector<std::int64_t> begins_{};
  std::int64_t period_ = 0;
};

}  // namespace heddle

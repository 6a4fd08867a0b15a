// A contiguous range of a batch, of classes or of one dimension of a tensor: usually the part that one rank holds.
// parallel/communicator/shard.h decides how a total is divided among ranks.
#pragma once

#include <cstdint>

namespace heddle {

struct IndexRange {
  std::int64_t begin = 0;
  std::int64_t size = 0;
  std::int64_t end() const { return begin + size; }
  bool contains(std::int64_t i) const { return i >= begin && i < end(); }
  bool operator==(const IndexRange&) const = default;
};

}  // namespace heddle

// A stretch of things, one rank's among all: of a batch, of classes, of one dimension of a tensor. How a total falls to
// ranks is decided where ranks are known (parallel/communicator/shard.h).
#pragma once

#include <cstdint>

namespace heddle {

struct ShardRange {
  std::int64_t begin = 0;
  std::int64_t size = 0;
  std::int64_t end() const { return begin + size; }
  bool contains(std::int64_t i) const { return i >= begin && i < end(); }
  bool operator==(const ShardRange&) const = default;
};

}  // namespace heddle

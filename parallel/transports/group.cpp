#include "parallel/transports/group.h"

#include <algorithm>
#include <numeric>

#include "framework/tensors/device.h"

namespace heddle {

namespace {

Group group_of(std::uint64_t id, std::vector<int> members, int me) {
  const auto at = std::find(members.begin(), members.end(), me) - members.begin();
  return {id, std::move(members), static_cast<std::size_t>(at)};
}

/// SplitMix64.
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

}  // namespace

Group Group::part(std::uint64_t sequence, const std::vector<int>& ranks) const {
  std::vector<int> of_world;
  for (const int member : ranks) of_world.push_back(world_rank(member));
  std::uint64_t part_id = id;
  for (const std::uint64_t word : {sequence, static_cast<std::uint64_t>(of_world[0])})
    part_id = mixed(part_id ^ mixed(word + 1));
  return group_of(part_id, std::move(of_world), members[rank]);
}

Group world_group(int ranks, int me) {
  std::vector<int> everybody(static_cast<std::size_t>(ranks));
  std::iota(everybody.begin(), everybody.end(), 0);
  return group_of(0, std::move(everybody), me);
}

void combine(Backend& mine, Reduction reduction, std::span<const Tensor> parts, std::span<Tensor> results) {
  if (parts.size() > 1)
    mine.reduction().combine(reduction, parts, results);
  else if (parts[0].data() != results[0].data())
    results[0].copy_from(parts[0]);
}

}  // namespace heddle

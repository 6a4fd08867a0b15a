#include "parallel/placement/redistribution_steps.h"

#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <set>
#include <tuple>

#include "framework/error.h"

namespace heddle {

namespace {

/// False if an axis within `axis` cuts a dimension that the step changes.
bool is_possible(const Placements& where, const RedistributionStep& step, const Mesh& mesh) {
  for (const Axis inner : all_axes)
    if (inner > step.axis && mesh.size(inner) > 1 && where[inner].value() == Spread::sharded &&
        (step.from.is_shard_of(*where[inner].dimension()) || step.to.is_shard_of(*where[inner].dimension())))
      return false;
  return true;
}

/// Bytes that a rank sends, if `whole` is what it holds when replicated along the axis of k ranks and all divides.
std::int64_t volume(const Distribution& from, const Distribution& to, std::int64_t whole, std::int64_t k) {
  const std::optional<Operation> operation = operation_between(from, to);
  if (!operation) return 0;
  if (*operation == Operation::all_reduce) return 2 * (k - 1) * (whole / k);
  if (*operation == Operation::all_to_all) return (k - 1) * (whole / (k * k));
  return (k - 1) * (whole / k);
}

/// The search for the cheapest steps: its states are the placements that an axis may have in between.
class CheapestWay {
 public:
  CheapestWay(const Placements& from, const Placements& to, const Mesh& mesh) : mesh_(mesh) {
    for (const Axis axis : all_axes) {
      candidates_[axis] = {Placement::replicate()};
      // A redistribution never involves other stages.
      const bool is_over_stages = axis == Axis::pp && from[axis] == Placement() && to[axis] == Placement();
      if (mesh.size(axis) == 1 || is_over_stages) continue;
      add(axis, from[axis]);
      add(axis, to[axis]);
      for (const Axis other : all_axes)
        for (const Placement& placement : {from[other], to[other]})
          if (placement.value() == Spread::sharded) add(axis, placement);
    }
  }

  /// Dijkstra's algorithm; ties go to fewer steps, then to the earlier candidates, so all ranks find the same.
  std::vector<RedistributionStep> find(const Placements& from, const Placements& to) {
    const Key goal = key_of(to);
    reach(key_of(from), 0, 0, {});
    while (!queue_.empty()) {
      const auto [cost, count, key] = queue_.top();
      queue_.pop();
      if (key == goal) break;
      if (std::tie(cost, count) == std::tie(reached_[key].volume, reached_[key].steps)) leave(key);
    }
    std::vector<RedistributionStep> steps;
    Placements where = to;
    while (!(where == from)) {
      const RedistributionStep& step = reached_[key_of(where)].last;
      steps.push_back(step);
      where[step.axis] = step.from;
    }
    std::reverse(steps.begin(), steps.end());
    return steps;
  }

 private:
  using Key = std::array<std::size_t, all_axes.size()>;
  struct Reached {
    std::int64_t volume = 0;
    int steps = 0;
    RedistributionStep last;
  };
  using Queued = std::tuple<std::int64_t, int, Key>;

  void add(Axis axis, const Placement& placement) {
    std::vector<Placement>& known = candidates_[axis];
    if (std::find(known.begin(), known.end(), placement) == known.end()) known.push_back(placement);
  }
  Key key_of(const Placements& where) const {
    Key key{};
    for (const Axis axis : all_axes) {
      const std::vector<Placement>& known = candidates_[axis];
      key[static_cast<std::size_t>(axis)] =
          static_cast<std::size_t>(std::find(known.begin(), known.end(), where[axis]) - known.begin());
    }
    return key;
  }
  Placements placements_of(const Key& key) const {
    Placements where;
    for (const Axis axis : all_axes) where[axis] = candidates_[axis][key[static_cast<std::size_t>(axis)]];
    return where;
  }

  void reach(const Key& key, std::int64_t volume, int steps, const RedistributionStep& last) {
    const auto [place, is_new] = reached_.try_emplace(key, Reached{volume, steps, last});
    if (!is_new) {
      if (std::tie(place->second.volume, place->second.steps) <= std::tie(volume, steps)) return;
      place->second = {volume, steps, last};
    }
    queue_.emplace(volume, steps, key);
  }

  void leave(const Key& key) {
    const Placements where = placements_of(key);
    const Reached here = reached_[key];
    for (const Axis axis : all_axes) {
      // A number of bytes that all ranks of the mesh divide twice.
      std::int64_t whole = std::int64_t{mesh_.size()} * mesh_.size();
      for (const Axis other : all_axes)
        if (other != axis && where[other].value() == Spread::sharded) whole /= mesh_.size(other);
      for (const Placement& next : candidates_[axis]) {
        const RedistributionStep step{axis, where[axis], next};
        if (next == where[axis] || !is_possible(where, step, mesh_)) continue;
        const std::int64_t sent = volume_of(step, whole);
        Placements there = where;
        there[axis] = next;
        reach(key_of(there), here.volume + sent, here.steps + 1, step);
      }
    }
  }
  std::int64_t volume_of(const RedistributionStep& step, std::int64_t whole) const {
    const int k = mesh_.size(step.axis);
    return volume(value_distribution(step.from), value_distribution(step.to), whole, k) +
           volume(gradient_distribution(step.to), gradient_distribution(step.from), whole, k);
  }

  const Mesh& mesh_;
  PerAxis<std::vector<Placement>> candidates_;
  std::map<Key, Reached> reached_;
  std::priority_queue<Queued, std::vector<Queued>, std::greater<>> queue_;
};

struct Traffic {
  std::optional<Operation> operation;
  std::int64_t sent = 0;
  /// What collective_seconds takes as the operation's bytes; of an all_to_all see there.
  std::int64_t whole = 0;
};

/// `outer` is the rank's part when the value is replicated along the axis, on which the rank is number `me` of `k`.
Traffic traffic_of(const Distribution& from, const Distribution& to, const Shape& outer, DType dtype, int k, int me) {
  const std::optional<Operation> operation = operation_between(from, to);
  if (!operation) return {};
  const auto size = static_cast<std::int64_t>(size_of(dtype));
  const auto part = [&](const Shape& shape, int dimension) {
    return shape.with(dimension, shard(shape[dimension], k, me).size);
  };
  const std::int64_t whole = outer.numel() * size;
  switch (*operation) {
    case Operation::all_gather:
      return {operation, (k - 1) * part(outer, *from.dimension).numel() * size, whole};
    case Operation::reduce_scatter:
      return {operation, whole - part(outer, *to.dimension).numel() * size, whole};
    case Operation::all_reduce: {
      const std::int64_t mine = shard(outer.numel(), k, me).size * size;
      return {operation, whole - mine + (k - 1) * mine, whole};
    }
    default: {
      const Shape mine = part(outer, *from.dimension);
      const std::int64_t sent = (mine.numel() - part(mine, *to.dimension).numel()) * size;
      return {operation, sent, sent * k / (k - 1)};
    }
  }
}

/// Calls f(step, what the rank at `at` holds if replicated along the step's axis).
template <class F>
void for_each_step(const Shape& whole, const Placements& from, const Placements& to, const Mesh& mesh, F&& f) {
  Placements where = normalized(from, mesh);
  for (const RedistributionStep& step : redistribution_steps(from, to, mesh)) {
    where[step.axis] = Placement::replicate();
    f(step, [&](const Mesh::Coordinates& at) { return local_shape(whole, where, mesh, at); });
    where[step.axis] = step.to;
  }
}

}  // namespace

std::optional<Operation> operation_between(const Distribution& from, const Distribution& to) {
  if (from == to) return {};
  if (from.spread == Spread::sharded && to.spread == Spread::sharded) return Operation::all_to_all;
  if (from.spread == Spread::sharded && to.spread == Spread::replicated) return Operation::all_gather;
  if (from.spread == Spread::partial && to.spread == Spread::sharded) return Operation::reduce_scatter;
  if (from.spread == Spread::partial && to.spread == Spread::replicated) return Operation::all_reduce;
  return {};
}

std::string to_string(const RedistributionStep& step) {
  return fmt::format("{}: {} -> {}", name_of(step.axis), to_string(step.from), to_string(step.to));
}

std::vector<RedistributionStep> redistribution_steps(const Placements& from, const Placements& to, const Mesh& mesh) {
  const Placements begin = normalized(from, mesh);
  const Placements end = normalized(to, mesh);
  std::vector<RedistributionStep> changes;
  for (const Axis axis : all_axes)
    if (begin[axis] != end[axis]) changes.push_back({axis, begin[axis], end[axis]});
  if (changes.empty() || (changes.size() == 1 && is_possible(begin, changes[0], mesh))) return changes;
  return CheapestWay(begin, end, mesh).find(begin, end);
}

std::vector<StepTraffic> redistribution_traffic(const Shape& whole, DType dtype, const Placements& from,
                                                const Placements& to, const Mesh& mesh, const Mesh::Coordinates& at) {
  std::vector<StepTraffic> result;
  for_each_step(whole, from, to, mesh, [&](const RedistributionStep& step, const auto& outer_at) {
    const Shape outer = outer_at(at);
    const int k = mesh.size(step.axis);
    const Traffic forth =
        traffic_of(value_distribution(step.from), value_distribution(step.to), outer, dtype, k, at[step.axis]);
    const Traffic back =
        traffic_of(gradient_distribution(step.to), gradient_distribution(step.from), outer, dtype, k, at[step.axis]);
    result.push_back({step, forth.operation, back.operation, forth.sent, back.sent});
  });
  return result;
}

RedistributionSeconds redistribution_seconds(const LinkModel& links, const Shape& whole, DType dtype,
                                             const Placements& from, const Placements& to, const Mesh& mesh) {
  RedistributionSeconds total;
  for_each_step(whole, from, to, mesh, [&](const RedistributionStep& step, const auto& outer_at) {
    RedistributionSeconds slowest;
    const int k = mesh.size(step.axis);
    for (int rank = 0; rank < mesh.size(); ++rank) {
      const Mesh::Coordinates first = mesh.coordinates(rank);
      // Each group by its first rank, and one group for all stages, whose values are alike.
      if (first[step.axis] != 0 || first.pp != 0) continue;
      const Shape outer = outer_at(first);  // of all its members
      std::set<NodeSpread> spreads;
      for (int pp = 0; pp < mesh.size(Axis::pp); ++pp)
        spreads.insert(spread_of(links, mesh.ranks_over({step.axis}, mesh.rank({first.dp, pp, first.tp}))));
      const auto seconds = [&](const Distribution& before, const Distribution& after) {
        const std::optional<Operation> operation = operation_between(before, after);
        if (!operation) return 0.0;
        std::int64_t most = 0;
        for (int i = 0; i < k; ++i) most = std::max(most, traffic_of(before, after, outer, dtype, k, i).whole);
        double longest = 0;
        for (const NodeSpread& spread : spreads)
          longest = std::max(longest, collective_seconds(links, *operation, most, spread));
        return longest;
      };
      slowest.forward = std::max(slowest.forward, seconds(value_distribution(step.from), value_distribution(step.to)));
      slowest.backward =
          std::max(slowest.backward, seconds(gradient_distribution(step.to), gradient_distribution(step.from)));
    }
    total.forward += slowest.forward;
    total.backward += slowest.backward;
  });
  return total;
}

}  // namespace heddle

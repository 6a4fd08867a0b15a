#include "layers/planner/layered_graph.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace heddle {

namespace {

using Edge = LayeredGraph::Edge;

constexpr std::size_t none = std::numeric_limits<std::size_t>::max();
constexpr double unreachable_cost = std::numeric_limits<double>::infinity();

/// The cheapest path from each node to the goal, where `weigh` gives the weight of an edge; of equal paths the one
/// whose costs come late.
template <class Weight, class Weigh>
struct RestOfWay {
  std::vector<Weight> least;
  std::vector<std::size_t> edge;  // the first edge of the best path

  RestOfWay(const LayeredGraph& graph, const Weight& highest, Weigh weigh)
      : least(graph.nodes(), highest), edge(graph.nodes(), none) {
    least.back() = Weight{};
    for (std::size_t node = graph.nodes() - 1; node-- > 0;)
      for (std::size_t e = graph.first_edge[node]; e < graph.first_edge[node + 1]; ++e) {
        const Weight step = weigh(graph.edges[e]);
        const Weight way = step + least[graph.edges[e].to];
        if (!(way < least[node]) &&
            !(way == least[node] && edge[node] != none && step < weigh(graph.edges[edge[node]])))
          continue;
        least[node] = way;
        edge[node] = e;
      }
  }

  GraphPath path(const LayeredGraph& graph) const {
    GraphPath path;
    for (std::size_t node = 0; node + 1 < graph.nodes();) {
      const Edge& next = graph.edges[edge[node]];
      path.choices.push_back(next.choice);
      path.cost = path.cost + next.cost;
      path.bytes += next.bytes;
      node = next.to;
    }
    return path;
  }
};

constexpr std::int64_t far_away = std::numeric_limits<std::int64_t>::max() / 4;

auto by_cost(const LayeredGraph& graph) {
  return RestOfWay(graph, PathCost::infinite(), [](const Edge& edge) { return edge.cost; });
}
auto by_bytes(const LayeredGraph& graph) {
  return RestOfWay(graph, far_away, [](const Edge& edge) { return edge.bytes; });
}
auto by_both(const LayeredGraph& graph, double seconds_per_byte) {
  return RestOfWay(graph, unreachable_cost, [seconds_per_byte](const Edge& edge) {
    return edge.cost.first + seconds_per_byte * static_cast<double>(edge.bytes);
  });
}

/// The price per byte that gives the best lower bound, and the best path within the budget that the search for it
/// found.
struct Bound {
  double seconds_per_byte = 0;
  GraphPath best;
};

Bound lagrangian_bound(const LayeredGraph& graph, std::int64_t budget, GraphPath cheap, GraphPath small) {
  Bound bound{0, small};
  constexpr int max_rounds = 60;
  for (int round = 0; round < max_rounds && cheap.bytes > small.bytes; ++round) {
    const double price = (small.cost.first - cheap.cost.first) / static_cast<double>(cheap.bytes - small.bytes);
    if (price <= bound.seconds_per_byte && round > 0) break;
    bound.seconds_per_byte = std::max(price, 0.0);
    GraphPath path = by_both(graph, bound.seconds_per_byte).path(graph);
    if (path.bytes <= budget && path.cost < bound.best.cost) bound.best = path;
    const auto priced = [&](const GraphPath& p) {
      return p.cost.first + bound.seconds_per_byte * static_cast<double>(p.bytes);
    };
    if (priced(path) >= priced(cheap) * (1 - 1e-12)) break;
    (path.bytes <= budget ? small : cheap) = std::move(path);
  }
  return bound;
}

constexpr std::uint32_t no_label = std::numeric_limits<std::uint32_t>::max();

/// A path to a node that no other path to it beats in both cost and bytes.
struct Label {
  PathCost cost{};
  std::int64_t bytes = 0;
  std::uint32_t before = no_label;  // the path to the begin of the last edge
  std::uint32_t edge = 0;           // the last one
};
/// The paths to one node, ascending in bytes and therefore descending in cost.
using Front = std::vector<Label>;

class FrontSearch {
 public:
  FrontSearch(const LayeredGraph& graph, std::int64_t budget, Bound bound)
      : graph_(graph),
        budget_(budget),
        seconds_per_byte_(bound.seconds_per_byte),
        cost_(by_cost(graph).least),
        bytes_(by_bytes(graph).least),
        both_(by_both(graph, bound.seconds_per_byte).least),
        best_(std::move(bound.best)) {}

  /// A path that is hardly longer than the shortest one: at each node, of paths with about the same bytes, the most
  /// promising one is kept.
  void improve(std::size_t max_labels) {
    const std::size_t max_ways = std::clamp<std::size_t>(50 * max_labels / graph_.edges.size(), 16, 1024);
    if (std::optional<GraphPath> path = walk(0, std::numeric_limits<std::size_t>::max(), max_ways))
      best_ = *std::move(path);
  }
  /// Within `gap` of the shortest path: 0.01 is one per cent. Empty if that takes too many labels.
  std::optional<GraphPath> find(double gap, std::size_t max_labels) {
    return walk(gap, max_labels, std::numeric_limits<std::size_t>::max());
  }
  const GraphPath& best() const { return best_; }

 private:
  std::optional<GraphPath> walk(double gap, std::size_t max_labels, std::size_t max_ways) {
    reach_ = best_.cost.first * (1 - gap + rounding);
    labels_ = 0;
    followed_.clear();
    fronts_.assign(graph_.nodes(), {});
    fronts_[0].emplace_back();
    for (std::size_t node = 0; node + 1 < graph_.nodes(); ++node) {
      if (labels_ > max_labels) return {};
      const Front front = best_fronts(std::exchange(fronts_[node], {}), max_ways);
      for (const Label& way : front) {
        followed_.push_back({way.before, way.edge});
        for (std::size_t e = graph_.first_edge[node]; e < graph_.first_edge[node + 1]; ++e) extend(way, e);
      }
    }
    return fronts_.back().empty() ? best_ : path_to(fronts_.back().back());  // the cheapest is the largest
  }

  double priced(const Label& way) const { return way.cost.first + seconds_per_byte_ * static_cast<double>(way.bytes); }

  Front best_fronts(Front front, std::size_t most) const {
    if (front.size() <= most) return front;
    const double range = static_cast<double>(front.back().bytes - front.front().bytes) + 1;
    Front kept;
    std::size_t last_part = most;
    for (const Label& way : front) {
      const double share = static_cast<double>(way.bytes - front.front().bytes) / range;
      const auto part = static_cast<std::size_t>(share * static_cast<double>(most));
      if (part != last_part)
        kept.push_back(way);
      else if (priced(way) < priced(kept.back()))
        kept.back() = way;
      last_part = part;
    }
    return kept;
  }

  bool may_win(const Label& way, std::size_t node) const {
    if (way.bytes + bytes_[node] > budget_ || way.cost + cost_[node] >= best_.cost) return false;
    return priced(way) + both_[node] - seconds_per_byte_ * static_cast<double>(budget_) <= reach_;
  }

  /// Extends the path that was taken last.
  void extend(const Label& before, std::size_t edge) {
    const Edge& step = graph_.edges[edge];
    const Label way{before.cost + step.cost, before.bytes + step.bytes,
                    static_cast<std::uint32_t>(followed_.size() - 1), static_cast<std::uint32_t>(edge)};
    if (!may_win(way, step.to)) return;
    Front& front = fronts_[step.to];
    const auto place = std::upper_bound(front.begin(), front.end(), way.bytes,
                                        [](std::int64_t bytes, const Label& other) { return bytes < other.bytes; });
    if (place != front.begin() && (place - 1)->cost <= way.cost) return;
    auto first = place;
    if (first != front.begin() && (first - 1)->bytes == way.bytes) --first;
    auto last = place;
    while (last != front.end() && last->cost >= way.cost) ++last;
    front.insert(front.erase(first, last), way);
    ++labels_;
  }

  GraphPath path_to(const Label& end) const {
    GraphPath path{{}, end.cost, end.bytes};
    for (Followed way{end.before, end.edge}; way.before != no_label; way = followed_[way.before])
      path.choices.push_back(graph_.edges[way.edge].choice);
    std::reverse(path.choices.begin(), path.choices.end());
    return path;
  }

  static constexpr double rounding = 1e-9;  // more than the rounding errors of the bounds

  const LayeredGraph& graph_;
  std::int64_t budget_;
  double seconds_per_byte_;
  // The least costs of the rest of the path.
  std::vector<PathCost> cost_;
  std::vector<std::int64_t> bytes_;
  std::vector<double> both_;

  struct Followed {
    std::uint32_t before;
    std::uint32_t edge;
  };
  std::size_t labels_ = 0;  // number made so far
  std::vector<Followed> followed_;
  std::vector<Front> fronts_;  // one per node
  GraphPath best_;
  double reach_ = 0;  // paths that are not certainly cheaper than this get no label
};

}  // namespace

GraphPath shortest_path(const LayeredGraph& graph) {
  return by_cost(graph).path(graph);
}

GraphPath path_of_fewest_bytes(const LayeredGraph& graph) {
  return by_bytes(graph).path(graph);
}

std::optional<GraphPath> shortest_path_within(const LayeredGraph& graph, std::int64_t budget, std::size_t max_labels) {
  GraphPath cheap = shortest_path(graph);
  if (cheap.bytes <= budget) return cheap;
  const GraphPath small = path_of_fewest_bytes(graph);
  if (small.bytes > budget) return {};
  FrontSearch search(graph, budget, lagrangian_bound(graph, budget, std::move(cheap), small));
  search.improve(max_labels);
  for (const double gap : {0.0, 1e-4, 1e-3, 1e-2})
    if (std::optional<GraphPath> path = search.find(gap, max_labels)) return path;
  return search.best();
}

}  // namespace heddle

#include "layers/planner/placement_states.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "framework/error.h"

namespace heddle {

namespace {

/// For each value that is alive, in order: the placement in which it was made, and one bit for each placement in which
/// it was read before.
using State = std::vector<std::uint64_t>;

struct StateHash {
  std::size_t operator()(const State& state) const {
    std::uint64_t hash = 0xcbf29ce484222325ULL;
    for (const std::uint64_t word : state) hash = ((hash ^ word) * 0x9e3779b97f4a7c15ULL) ^ (hash >> 29U);
    return hash;
  }
};

class Builder {
 public:
  Builder(const PlacementProblem& problem, std::size_t max_states)
      : problem_(problem), max_states_(max_states), last_reader_(problem.steps.size()) {
    constexpr std::size_t bits = 64;
    for (std::size_t step = 0; step < problem.steps.size(); ++step) {
      if (problem.steps[step].wanted > bits) fail("planner: a value is wanted in more than {} placements", bits);
      last_reader_[step] = step;
      for (const std::size_t value : problem.steps[step].inputs) last_reader_[value] = step;
    }
  }

  LayeredGraph build() {
    level_ = {{State{}}, {PathCost{}}, {}};
    for (std::size_t step = 0; step < problem_.steps.size(); ++step) {
      expand(step);
      keep_cheapest();
      append_level();
    }
    graph_.first_edge.insert(graph_.first_edge.end(), level_.states.size() + 1, graph_.edges.size());
    return std::move(graph_);
  }

 private:
  struct Level {
    std::vector<State> states{};
    std::vector<PathCost> best{};  // the best path to each
    std::unordered_map<State, std::uint32_t, StateHash> known{};
  };

  std::uint32_t node_of(State state, const PathCost& cost) {
    const auto [place, is_new] = next_.known.try_emplace(state, static_cast<std::uint32_t>(next_.states.size()));
    if (is_new) {
      next_.states.push_back(std::move(state));
      next_.best.push_back(cost);
    } else {
      next_.best[place->second] = std::min(next_.best[place->second], cost);
    }
    return place->second;
  }

  std::size_t slot_of(std::size_t value) const {
    return 2 * static_cast<std::size_t>(std::find(alive_.begin(), alive_.end(), value) - alive_.begin());
  }

  /// The first reader that wants a value in this placement pays for the redistribution.
  void read(std::size_t value, std::size_t wanted, State& state, LayeredGraph::Edge& edge) const {
    const PlacementProblem::Step& maker = problem_.steps[value];
    const std::size_t slot = slot_of(value);
    const std::uint64_t bit = std::uint64_t{1} << wanted;
    if ((state[slot + 1] & bit) != 0) return;
    const PathCost& cost = maker.conversions[state[slot] * maker.wanted + wanted];
    edge.cost = edge.cost + cost;
    if (problem_.counts_bytes) edge.bytes += maker.kept[wanted];
    if (problem_.counts_bytes || cost > PathCost{}) state[slot + 1] |= bit;
  }

  void expand(std::size_t index) {
    const PlacementProblem::Step& step = problem_.steps[index];
    std::vector<std::size_t> still_alive;
    for (const std::size_t value : alive_)
      if (last_reader_[value] > index) still_alive.push_back(value);
    next_ = {};
    edges_.clear();
    first_edge_.clear();
    for (std::size_t node = 0; node < level_.states.size(); ++node) {
      first_edge_.push_back(edges_.size());
      for (std::size_t choice = 0; choice < step.choices.size(); ++choice) {
        const PlacementProblem::Choice& chosen = step.choices[choice];
        LayeredGraph::Edge edge{
            .choice = static_cast<std::uint32_t>(choice), .cost = chosen.cost, .bytes = chosen.bytes};
        State state = level_.states[node];
        for (std::size_t i = 0; i < step.inputs.size(); ++i) read(step.inputs[i], chosen.wanted[i], state, edge);
        State after;
        for (const std::size_t value : still_alive) {
          after.push_back(state[slot_of(value)]);
          after.push_back(state[slot_of(value) + 1]);
        }
        if (last_reader_[index] > index) after.insert(after.end(), {chosen.made, 0});
        edge.to = node_of(std::move(after), level_.best[node] + edge.cost);
        edges_.push_back(edge);
      }
    }
    first_edge_.push_back(edges_.size());
    alive_ = std::move(still_alive);
    if (last_reader_[index] > index) alive_.push_back(index);
  }

  void keep_cheapest() {
    const std::size_t count = next_.states.size();
    new_index_.assign(count, dropped);
    std::vector<std::uint32_t> order(count);
    std::iota(order.begin(), order.end(), 0U);
    if (count > max_states_) {
      std::stable_sort(order.begin(), order.end(),
                       [&](std::uint32_t a, std::uint32_t b) { return next_.best[a] < next_.best[b]; });
      order.resize(max_states_);
      std::sort(order.begin(), order.end());
    }
    level_ = {};
    for (const std::uint32_t node : order) {
      new_index_[node] = static_cast<std::uint32_t>(level_.states.size());
      level_.states.push_back(std::move(next_.states[node]));
      level_.best.push_back(next_.best[node]);
    }
  }

  /// Appends the edges of the level before, now that the nodes to which they lead have their numbers.
  void append_level() {
    const std::size_t nodes_before = graph_.first_edge.size() + first_edge_.size() - 1;
    for (std::size_t node = 0; node + 1 < first_edge_.size(); ++node) {
      graph_.first_edge.push_back(graph_.edges.size());
      for (std::size_t e = first_edge_[node]; e < first_edge_[node + 1]; ++e) {
        LayeredGraph::Edge edge = edges_[e];
        if (new_index_[edge.to] == dropped) continue;
        edge.to = static_cast<std::uint32_t>(nodes_before) + new_index_[edge.to];
        graph_.edges.push_back(edge);
      }
    }
  }

  static constexpr std::uint32_t dropped = ~std::uint32_t{0};

  const PlacementProblem& problem_;
  std::size_t max_states_;
  std::vector<std::size_t> last_reader_;
  std::vector<std::size_t> alive_;
  Level level_;
  Level next_;
  std::vector<LayeredGraph::Edge> edges_;  // the edges of the level, to nodes of the next one
  std::vector<std::size_t> first_edge_;
  std::vector<std::uint32_t> new_index_;
  LayeredGraph graph_;
};

}  // namespace

LayeredGraph graph_of(const PlacementProblem& problem, std::size_t max_states) {
  return Builder(problem, max_states).build();
}

}  // namespace heddle

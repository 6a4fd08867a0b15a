#include "layers/planner/placement_states.h"

#include <algorithm>
#include <span>

#include "framework/error.h"

namespace heddle {

namespace {

using Word = std::uint64_t;

/// The different states after one step. A state has two words for each value that is alive, in order: the placement in
/// which it was made, and one bit for each placement in which it was read before.
class States {
 public:
  explicit States(std::size_t words = 0) : words_(words) {}

  std::size_t size() const { return best_.size(); }
  std::span<const Word> operator[](std::size_t index) const { return std::span(all_).subspan(index * words_, words_); }
  /// The cost of the best path to a state.
  const PathCost& best(std::size_t index) const { return best_[index]; }

  /// Appends a state that is different from all others.
  void append(std::span<const Word> state, const PathCost& cost) {
    all_.insert(all_.end(), state.begin(), state.end());
    best_.push_back(cost);
  }

  /// The index of this state, to which a path of this cost leads.
  std::uint32_t index_of(std::span<const Word> state, const PathCost& cost) {
    if (2 * (size() + 1) > slots_.size()) enlarge();
    std::uint32_t& slot = slots_[slot_of(state)];
    if (slot == free_slot) {
      slot = static_cast<std::uint32_t>(size());
      append(state, cost);
    } else {
      best_[slot] = std::min(best_[slot], cost);
    }
    return slot;
  }

 private:
  static constexpr std::uint32_t free_slot = ~std::uint32_t{0};

  /// Linear probing; the number of slots is a power of two.
  std::size_t slot_of(std::span<const Word> state) const {
    Word hash = 0xcbf29ce484222325ULL;
    for (const Word word : state) hash = ((hash ^ word) * 0x9e3779b97f4a7c15ULL) ^ (hash >> 29U);
    std::size_t slot = (hash ^ (hash >> 32U)) & (slots_.size() - 1);
    while (slots_[slot] != free_slot && !std::ranges::equal((*this)[slots_[slot]], state))
      slot = (slot + 1) & (slots_.size() - 1);
    return slot;
  }
  void enlarge() {
    slots_.assign(std::max<std::size_t>(64, 2 * slots_.size()), free_slot);
    for (std::uint32_t index = 0; index < size(); ++index) slots_[slot_of((*this)[index])] = index;
  }

  std::size_t words_;
  std::vector<Word> all_;
  std::vector<PathCost> best_;
  std::vector<std::uint32_t> slots_;  // indices of states
};

class Builder {
 public:
  Builder(const PlacementProblem& problem, std::size_t max_states, const PathCost& max_cost)
      : problem_(problem),
        max_states_(max_states),
        max_cost_(max_cost),
        min_after_(problem.steps.size()),
        last_reader_(problem.steps.size()) {
    for (std::size_t step = problem.steps.size() - 1; step > 0; --step)
      min_after_[step - 1] = min_after_[step] + min_cost(problem.steps[step]);
    constexpr std::size_t bits = 64;
    for (std::size_t step = 0; step < problem.steps.size(); ++step) {
      if (problem.steps[step].wanted > bits) fail("planner: a value is wanted in more than {} placements", bits);
      last_reader_[step] = step;
      for (const std::size_t value : problem.steps[step].inputs) last_reader_[value] = step;
    }
  }

  std::optional<LayeredGraph> build() {
    level_.append({}, PathCost{});
    for (std::size_t step = 0; step < problem_.steps.size(); ++step) {
      expand(step);
      keep_cheapest(min_after_[step]);
      if (level_.size() == 0) return {};
      append_level();
    }
    graph_.first_edge.insert(graph_.first_edge.end(), level_.size() + 1, graph_.edges.size());
    return std::move(graph_);
  }

 private:
  static PathCost min_cost(const PlacementProblem::Step& step) {
    PathCost least = PathCost::infinite();
    for (const PlacementProblem::Choice& choice : step.choices) least = std::min(least, choice.cost);
    return least;
  }

  std::size_t position_of(std::size_t value) const {
    return 2 * static_cast<std::size_t>(std::find(alive_.begin(), alive_.end(), value) - alive_.begin());
  }

  /// The first reader that wants a value in this placement pays for the redistribution.
  void read(std::size_t value, std::size_t position, std::size_t wanted, LayeredGraph::Edge& edge) {
    const PlacementProblem::Step& maker = problem_.steps[value];
    const Word bit = Word{1} << wanted;
    if ((state_[position + 1] & bit) != 0) return;
    const PathCost& cost = maker.conversions[state_[position] * maker.wanted + wanted];
    edge.cost = edge.cost + cost;
    if (problem_.counts_bytes) edge.bytes += maker.kept[wanted];
    if (problem_.counts_bytes || cost > PathCost{}) state_[position + 1] |= bit;
  }

  void expand(std::size_t index) {
    const PlacementProblem::Step& step = problem_.steps[index];
    std::vector<std::size_t> read_at;  // the positions of the inputs in a state
    for (const std::size_t value : step.inputs) read_at.push_back(position_of(value));
    std::vector<std::size_t> still_alive;
    std::vector<std::size_t> kept_at;
    for (const std::size_t value : alive_)
      if (last_reader_[value] > index) {
        still_alive.push_back(value);
        kept_at.push_back(position_of(value));
      }
    if (last_reader_[index] > index) still_alive.push_back(index);
    next_ = States(2 * still_alive.size());
    edges_.clear();
    first_edge_.clear();
    for (std::size_t node = 0; node < level_.size(); ++node) {
      first_edge_.push_back(edges_.size());
      const std::span<const Word> before = level_[node];
      for (std::size_t choice = 0; choice < step.choices.size(); ++choice) {
        const PlacementProblem::Choice& chosen = step.choices[choice];
        LayeredGraph::Edge edge{
            .choice = static_cast<std::uint32_t>(choice), .cost = chosen.cost, .bytes = chosen.bytes};
        state_.assign(before.begin(), before.end());
        for (std::size_t i = 0; i < step.inputs.size(); ++i) read(step.inputs[i], read_at[i], chosen.wanted[i], edge);
        after_.clear();
        for (const std::size_t position : kept_at)
          after_.insert(after_.end(), {state_[position], state_[position + 1]});
        if (last_reader_[index] > index) after_.insert(after_.end(), {chosen.made, 0});
        edge.to = next_.index_of(after_, level_.best(node) + edge.cost);
        edges_.push_back(edge);
      }
    }
    first_edge_.push_back(edges_.size());
    alive_ = std::move(still_alive);
  }

  /// `rest`: the least that all later steps cost.
  void keep_cheapest(const PathCost& rest) {
    new_index_.assign(next_.size(), dropped);
    std::vector<std::uint32_t> order;
    for (std::uint32_t node = 0; node < next_.size(); ++node)
      if (next_.best(node) + rest <= max_cost_) order.push_back(node);
    if (order.size() > max_states_) {
      std::stable_sort(order.begin(), order.end(),
                       [&](std::uint32_t a, std::uint32_t b) { return next_.best(a) < next_.best(b); });
      order.resize(max_states_);
      std::sort(order.begin(), order.end());
    }
    level_ = States(2 * alive_.size());
    for (const std::uint32_t node : order) {
      new_index_[node] = static_cast<std::uint32_t>(level_.size());
      level_.append(next_[node], next_.best(node));
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
  PathCost max_cost_;
  std::vector<PathCost> min_after_;  // for each step the least that all later ones cost, without redistributions
  std::vector<std::size_t> last_reader_;
  std::vector<std::size_t> alive_;
  States level_;
  States next_;
  // The states before and behind an edge. In the first, what the layer reads is marked.
  std::vector<Word> state_;
  std::vector<Word> after_;
  std::vector<LayeredGraph::Edge> edges_;  // the edges of the level, to nodes of the next one
  std::vector<std::size_t> first_edge_;
  std::vector<std::uint32_t> new_index_;
  LayeredGraph graph_;
};

}  // namespace

std::int64_t PlacementProblem::bytes_of(const GraphPath& path) const {
  std::int64_t sum = 0;
  std::vector<Word> read(steps.size());  // one bit for each placement in which a value is read
  const auto is_first = [&](std::size_t value, std::size_t wanted) {
    const Word before = read[value];
    read[value] |= Word{1} << wanted;
    return read[value] != before;
  };
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Choice& chosen = steps[i].choices[path.choices[i]];
    sum += chosen.bytes;
    for (std::size_t input = 0; input < steps[i].inputs.size(); ++input) {
      const std::size_t value = steps[i].inputs[input];
      if (is_first(value, chosen.wanted[input])) sum += steps[value].kept[chosen.wanted[input]];
    }
  }
  return sum;
}

std::optional<LayeredGraph> graph_of(const PlacementProblem& problem, std::size_t max_states,
                                     const PathCost& max_cost) {
  return Builder(problem, max_states, max_cost).build();
}

}  // namespace heddle

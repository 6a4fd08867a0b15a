#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "framework/autograd/graph_node.h"
#include "framework/error.h"
#include "framework/tensors/device.h"

namespace heddle {

namespace {

using NodePointer = std::shared_ptr<GraphNode>;

/// The collectives that the roots depend on and that were not visited yet.
std::vector<NodePointer> collectives_of(const std::vector<Root>& roots) {
  std::vector<NodePointer> found;
  std::unordered_set<const GraphNode*> seen;
  std::vector<NodePointer> rest;
  const auto visit = [&](const NodePointer& node) {
    if (node && node->leads_to_collective && !node->freed && seen.insert(node.get()).second) rest.push_back(node);
  };
  for (const Root& root : roots) visit(root.output.node());
  while (!rest.empty()) {
    const NodePointer node = std::move(rest.back());
    rest.pop_back();
    if (node->is_collective) found.push_back(node);
    for (const NodePointer& input : node->inputs) visit(input);
  }
  return found;
}

/// Adds to the gradient of a node that was not visited yet. Its tensor is reused only if no other handle shares it.
void accumulate(Tensor& sum, Tensor gradient) {
  if (!sum.defined()) {
    sum = std::move(gradient);
    return;
  }
  if (sum.shape() != gradient.shape() || sum.dtype() != gradient.dtype())
    fail("backward: gradients {} and {} of one value differ in shape", to_string(sum), to_string(gradient));
  if (!sum.is_sole_owner()) {
    if (gradient.is_sole_owner()) {
      std::swap(sum, gradient);
    } else {
      sum = sum.clone();
    }
  }
  sum.device().backend().elementwise().scale_add(1, gradient, 1, sum);
}

void check_root(const Root& root) {
  if (!root.output.leads().anywhere())
    fail<InputError>("backward: {} does not lead to a parameter or an input", to_string(root.output.value()));
  if (root.gradient.defined() && root.output.defined() &&
      (root.gradient.shape() != root.output.shape() || root.gradient.dtype() != root.output.dtype()))
    fail<InputError>("backward: expected a gradient {}, got {}", to_string(root.output.value()),
                     to_string(root.gradient));
}

constexpr std::uint64_t bit(std::size_t input) {
  return std::uint64_t{1} << input;
}

}  // namespace

/// A backward pass over a graph, in one part or in two.
class GraphWalk {
 public:
  enum class Part { whole, inputs, weights };

  explicit GraphWalk(Part first) : part_(first) {}
  ~GraphWalk() {
    for (const std::shared_ptr<Accumulator>& leaf : deferred_leaves_) --leaf->deferred_;
  }
  GraphWalk(const GraphWalk&) = delete;
  GraphWalk& operator=(const GraphWalk&) = delete;

  /// Runs the whole pass or its first part.
  void run(std::vector<Root> roots);
  void run_weights();
  bool is_done() const { return reached_.empty(); }

 private:
  /// A node that the walk must continue from.
  struct Reached {
    NodePointer node;
    Tensor gradient{};
    /// Whether the input part has visited the node, and the gradients that it got for the remaining inputs and could
    /// not add yet.
    bool is_left = false;
    Gradients given{};
  };

  void arrive(const NodePointer& node, Tensor gradient);
  void walk();
  void visit(Reached reached);
  Gradients ask(Reached& reached);
  bool goes_on_now(const GraphNode& node) const { return part_ != Part::inputs || node.leads.to_input; }
  bool takes_now(const GraphNode& input, const Tensor& gradient) const;
  void defer(const GraphNode& node);

  Part part_;
  // Keyed by node. The heap orders the nodes that this part visits by age. Both hold only nodes that the walk has
  // reached.
  std::unordered_map<const GraphNode*, Reached> reached_;
  std::vector<const GraphNode*> heap_;
  /// The count of deferred edges of each of these is increased by one until this walk ends.
  std::vector<std::shared_ptr<Accumulator>> deferred_leaves_;
};

namespace {

bool is_older(const GraphNode* a, const GraphNode* b) {
  return a->sequence < b->sequence;
}

}  // namespace

void GraphWalk::run(std::vector<Root> roots) {
  for (const NodePointer& collective : collectives_of(roots)) arrive(collective, Tensor());
  for (Root& root : roots) {
    check_root(root);
    if (root.gradient.defined()) arrive(root.output.node(), std::move(root.gradient));
  }
  roots.clear();
  walk();
}

void GraphWalk::run_weights() {
  part_ = Part::weights;
  for (const auto& [node, reached] : reached_) heap_.push_back(node);
  std::make_heap(heap_.begin(), heap_.end(), is_older);
  walk();
}

void GraphWalk::arrive(const NodePointer& node, Tensor gradient) {
  if (node->accumulator) return node->accumulator->add(std::move(gradient));
  auto [place, is_new] = reached_.try_emplace(node.get(), Reached{node});
  if (gradient.defined()) accumulate(place->second.gradient, std::move(gradient));
  if (!is_new) return;
  if (!goes_on_now(*node)) return defer(*node);
  heap_.push_back(node.get());
  std::push_heap(heap_.begin(), heap_.end(), is_older);
}

void GraphWalk::walk() {
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), is_older);
    const auto place = reached_.find(heap_.back());
    heap_.pop_back();
    Reached reached = std::move(place->second);
    reached_.erase(place);
    visit(std::move(reached));
  }
}

void GraphWalk::visit(Reached reached) {
  GraphNode& node = *reached.node;
  if (!reached.is_left) {
    if (!reached.gradient.defined()) reached.gradient = node.zeros();
    if (node.freed) fail<InputError>("backward: this graph was already traversed and its tensors are freed");
    node.freed = true;
  }
  Gradients gradients = ask(reached);
  bool is_left = false;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (!node.inputs[i]) continue;
    if (!goes_on_now(*node.inputs[i]) && !takes_now(*node.inputs[i], gradients[i])) {
      defer(*node.inputs[i]);
      is_left = true;
      continue;
    }
    const NodePointer input = std::exchange(node.inputs[i], nullptr);
    if (gradients[i].defined()) arrive(input, std::exchange(gradients[i], Tensor()));
    if (input->accumulator) input->reader_walked();
  }
  if (!is_left) return;
  reached.is_left = true;
  reached.given = std::move(gradients);
  reached_.emplace(&node, std::move(reached));
}

/// The gradients that the node's vjp gives now and those that it gave before. The vjp and its argument are freed if it
/// has no more to give.
Gradients GraphWalk::ask(Reached& reached) {
  GraphNode& node = *reached.node;
  Gradients gradients = std::move(reached.given);
  const auto has = [&](std::size_t i) { return i < gradients.size() && gradients[i].defined(); };
  std::uint64_t now = 0;
  std::uint64_t later = 0;
  for (std::size_t i = 0; i < node.inputs.size(); ++i)
    if (node.inputs[i] && !has(i)) (goes_on_now(*node.inputs[i]) ? now : later) |= bit(i);
  if (now != 0) {
    if (node.segment) std::exchange(node.segment, nullptr)->run_again();
    Gradients given = node.vjp(reached.gradient, Wanted(now, later, &node));
    given.resize(node.inputs.size());
    for (std::size_t i = 0; i < gradients.size(); ++i)
      if (has(i)) given[i] = std::move(gradients[i]);
    gradients = std::move(given);
  }
  for (std::size_t i = 0; i < node.inputs.size(); ++i)
    if ((later & bit(i)) != 0 && !has(i)) return gradients;
  node.vjp = nullptr;
  reached.gradient = Tensor();
  return gradients;
}

/// Whether a gradient that the input part got for an input of the weight part may be added at once: not if another one,
/// from later in the graph, has to be added first.
bool GraphWalk::takes_now(const GraphNode& input, const Tensor& gradient) const {
  return gradient.defined() && input.accumulator && input.accumulator->deferred_ == 0;
}

/// Notes that the weight part will add to the leaves that this node leads to.
void GraphWalk::defer(const GraphNode& node) {
  std::vector<const GraphNode*> rest{&node};
  const auto visit_input = [&](const NodePointer& input) {
    if (!input) return;
    if (input->accumulator || !std::exchange(input->is_deferred, true)) rest.push_back(input.get());
  };
  while (!rest.empty()) {
    const GraphNode& next = *rest.back();
    rest.pop_back();
    if (next.accumulator) {
      ++next.accumulator->deferred_;
      deferred_leaves_.push_back(next.accumulator);
    }
    for (const NodePointer& input : next.inputs) visit_input(input);
  }
}

void backward(std::vector<Root> roots) {
  GraphWalk(GraphWalk::Part::whole).run(std::move(roots));
}

void backward(const Variable& loss) {
  if (loss.value().numel() != 1)
    fail<InputError>("backward: expected a loss of one element, got {}", to_string(loss.value()));
  backward({{loss, Tensor::full(loss.device(), loss.shape(), loss.dtype(), 1)}});
}

WeightBackward::WeightBackward() = default;
WeightBackward::~WeightBackward() = default;
WeightBackward::WeightBackward(WeightBackward&&) noexcept = default;
WeightBackward& WeightBackward::operator=(WeightBackward&&) noexcept = default;
WeightBackward::WeightBackward(std::unique_ptr<GraphWalk> walk) : walk_(std::move(walk)) {}

void WeightBackward::run() {
  if (const std::unique_ptr<GraphWalk> walk = std::move(walk_)) walk->run_weights();
}

WeightBackward backward_inputs(std::vector<Root> roots) {
  auto walk = std::make_unique<GraphWalk>(GraphWalk::Part::inputs);
  walk->run(std::move(roots));
  return walk->is_done() ? WeightBackward() : WeightBackward(std::move(walk));
}

}  // namespace heddle

#include "framework/autograd.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "framework/device.h"
#include "framework/error.h"

namespace heddle {

/// An operation's record, or a leaf (no inputs, an accumulator). Sequence numbers give the order of creation.
class GraphNode {
 public:
  GraphNode(std::uint64_t order, Leads where) : sequence(order), leads(where) {}
  ~GraphNode();
  GraphNode(const GraphNode&) = delete;
  GraphNode& operator=(const GraphNode&) = delete;

  void read(std::span<const Variable> variables);
  /// Gives the inputs up unwalked: no gradient comes from here.
  std::vector<std::shared_ptr<GraphNode>> drop_inputs();
  /// One reader of this leaf was walked.
  void reader_walked() const;

  std::uint64_t sequence;
  Leads leads;
  bool freed = false;
  /// This node is a collective; it or one that it was made of is.
  bool is_collective = false;
  bool leads_to_collective = false;
  std::vector<std::shared_ptr<GraphNode>> inputs;  // null: a constant
  Vjp vjp;
  std::shared_ptr<Accumulator> accumulator;
  /// Of a collective: what a gradient of its output is.
  std::function<Tensor()> zeros;
};

namespace {

/// The collectives that the roots were made of and that were not walked yet.
std::vector<std::shared_ptr<GraphNode>> collectives_of(const std::vector<Root>& roots) {
  std::vector<std::shared_ptr<GraphNode>> found;
  std::unordered_set<const GraphNode*> seen;
  std::vector<std::shared_ptr<GraphNode>> rest;
  const auto visit = [&](const std::shared_ptr<GraphNode>& node) {
    if (node && node->leads_to_collective && !node->freed && seen.insert(node.get()).second) rest.push_back(node);
  };
  for (const Root& root : roots) visit(root.output.node());
  while (!rest.empty()) {
    const std::shared_ptr<GraphNode> node = std::move(rest.back());
    rest.pop_back();
    if (node->is_collective) found.push_back(node);
    for (const std::shared_ptr<GraphNode>& input : node->inputs) visit(input);
  }
  return found;
}

// Nodes hold their inputs; freeing a chain by the destructors alone would recurse once a node.
void release_iteratively(std::vector<std::shared_ptr<GraphNode>> nodes) {
  while (!nodes.empty()) {
    const std::shared_ptr<GraphNode> node = std::move(nodes.back());
    nodes.pop_back();
    if (node && node.use_count() == 1) {
      std::vector<std::shared_ptr<GraphNode>> inputs = node->drop_inputs();
      std::move(inputs.begin(), inputs.end(), std::back_inserter(nodes));
    }
  }
}

std::shared_ptr<GraphNode> make_leaf(Device& device, std::shared_ptr<Accumulator> accumulator, Leads leads) {
  auto node = std::make_shared<GraphNode>(device.next_sequence(), leads);
  node->accumulator = std::move(accumulator);
  return node;
}

void add_in_place(const Tensor& x, Tensor& sum) {
  sum.device().backend().elementwise().scale_add(1, x, 1, sum);
}

/// Adds to a gradient under way; its tensor is reused only if nobody else can see it.
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
  add_in_place(gradient, sum);
}

}  // namespace

GraphNode::~GraphNode() {
  if (!inputs.empty()) release_iteratively(drop_inputs());
}

void GraphNode::read(std::span<const Variable> variables) {
  inputs.reserve(variables.size());
  for (const Variable& variable : variables) {
    inputs.push_back(variable.leads().anywhere() ? variable.node() : nullptr);
    if (inputs.back() && inputs.back()->accumulator) ++inputs.back()->accumulator->pending_readers_;
  }
}

std::vector<std::shared_ptr<GraphNode>> GraphNode::drop_inputs() {
  for (const std::shared_ptr<GraphNode>& input : inputs)
    if (input && input->accumulator) --input->accumulator->pending_readers_;
  return std::exchange(inputs, {});
}

void GraphNode::reader_walked() const {
  if (--accumulator->pending_readers_ == 0 && accumulator->ready_) accumulator->ready_();
}

void Accumulator::add(Tensor gradient) {
  if (!gradient_.defined()) {
    // A view or a shared tensor is not ours to write to later.
    if (!gradient.is_sole_owner() || gradient.bytes() != gradient.storage()->bytes()) gradient = gradient.clone();
    gradient.storage()->recategorise(category_);
    gradient_ = std::move(gradient);
    return;
  }
  add_in_place(gradient, gradient_);
}

Variable Variable::parameter(Tensor value, std::shared_ptr<Accumulator> accumulator) {
  auto node = make_leaf(value.device(), std::move(accumulator), {.to_parameter = true, .to_input = false});
  return {std::move(value), std::move(node)};
}

Variable Variable::input(Tensor value, std::shared_ptr<Accumulator> accumulator) {
  auto node = make_leaf(value.device(), std::move(accumulator), {.to_parameter = false, .to_input = true});
  return {std::move(value), std::move(node)};
}

Leads Variable::leads() const {
  return node_ ? node_->leads : Leads{};
}

Variable record(Tensor output, std::span<const Variable> inputs, Vjp vjp) {
  if (inputs.size() > 64) fail("record: an operation has at most 64 inputs, got {}", inputs.size());
  Leads leads;
  bool leads_to_collective = false;
  for (const Variable& input : inputs) {
    leads.to_parameter |= input.leads().to_parameter;
    leads.to_input |= input.leads().to_input;
    leads_to_collective |= input.node() && input.node()->leads_to_collective;
  }
  Device& device = output.device();
  if (!leads.anywhere() || !device.records()) return {std::move(output)};
  auto node = std::make_shared<GraphNode>(device.next_sequence(), leads);
  node->leads_to_collective = leads_to_collective;
  node->read(inputs);
  node->vjp = std::move(vjp);
  return {std::move(output), std::move(node)};
}

Variable record(Tensor output, std::initializer_list<Variable> inputs, Vjp vjp) {
  return record(std::move(output), std::span(inputs.begin(), inputs.size()), std::move(vjp));
}

Variable record_collective(Tensor output, std::span<const Variable> inputs, Vjp vjp) {
  Variable result = record(std::move(output), inputs, std::move(vjp));
  if (!result.node()) return result;
  result.node()->is_collective = true;
  result.node()->leads_to_collective = true;
  result.node()->zeros = [&device = result.device(), shape = result.shape(), dtype = result.dtype()] {
    return Tensor::zeros(device, shape, dtype);
  };
  return result;
}

Variable record_collective(Tensor output, std::initializer_list<Variable> inputs, Vjp vjp) {
  return record_collective(std::move(output), std::span(inputs.begin(), inputs.size()), std::move(vjp));
}

void backward(std::vector<Root> roots) {
  struct Pending {
    std::shared_ptr<GraphNode> node;
    Tensor gradient;
  };
  // Keyed by node; the heap orders the same nodes by age. Both hold only what the walk has reached.
  std::unordered_map<const GraphNode*, Pending> pending;
  std::vector<const GraphNode*> heap;
  const auto older = [](const GraphNode* a, const GraphNode* b) { return a->sequence < b->sequence; };
  const auto arrive = [&](const std::shared_ptr<GraphNode>& node, Tensor gradient) {
    if (node->accumulator) return node->accumulator->add(std::move(gradient));
    auto [place, is_new] = pending.try_emplace(node.get(), Pending{node, {}});
    if (gradient.defined()) accumulate(place->second.gradient, std::move(gradient));
    if (!is_new) return;
    heap.push_back(node.get());
    std::push_heap(heap.begin(), heap.end(), older);
  };
  for (const std::shared_ptr<GraphNode>& collective : collectives_of(roots)) arrive(collective, Tensor());
  for (Root& root : roots) {
    if (!root.output.leads().anywhere())
      fail<InputError>("backward: {} does not lead to a parameter or an input", to_string(root.output.value()));
    if (root.gradient.shape() != root.output.shape() || root.gradient.dtype() != root.output.dtype())
      fail<InputError>("backward: expected a gradient {}, got {}", to_string(root.output.value()),
                       to_string(root.gradient));
    arrive(root.output.node(), std::move(root.gradient));
  }
  roots.clear();
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), older);
    const auto place = pending.find(heap.back());
    heap.pop_back();
    const std::shared_ptr<GraphNode> node = std::move(place->second.node);
    Tensor gradient = std::move(place->second.gradient);
    pending.erase(place);
    if (!gradient.defined()) gradient = node->zeros();
    if (node->freed) fail<InputError>("backward: this graph was already walked and its tensors are freed");
    std::uint64_t wanted = 0;
    for (std::size_t i = 0; i < node->inputs.size(); ++i)
      if (node->inputs[i]) wanted |= std::uint64_t{1} << i;
    node->freed = true;
    Gradients gradients = std::exchange(node->vjp, nullptr)(gradient, Wanted(wanted));
    gradient = Tensor();
    const std::vector<std::shared_ptr<GraphNode>> inputs = std::exchange(node->inputs, {});
    gradients.resize(inputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i]) continue;
      if (gradients[i].defined()) arrive(inputs[i], std::exchange(gradients[i], Tensor()));
      if (inputs[i]->accumulator) inputs[i]->reader_walked();
    }
  }
}

void backward(const Variable& loss) {
  if (loss.value().numel() != 1)
    fail<InputError>("backward: expected a loss of one element, got {}", to_string(loss.value()));
  backward({{loss, Tensor::full(loss.device(), loss.shape(), loss.dtype(), 1)}});
}

}  // namespace heddle

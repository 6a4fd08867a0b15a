#include "framework/autograd/autograd.h"

#include <algorithm>
#include <iterator>

#include "framework/autograd/graph_node.h"
#include "framework/error.h"
#include "framework/tensors/device.h"

namespace heddle {

namespace {

// Nodes hold their inputs: if destructors alone freed a chain, they would recurse once per node.
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
  auto node = std::make_shared<GraphNode>(device.recorder().next_sequence(), leads);
  node->accumulator = std::move(accumulator);
  return node;
}

void add_in_place(const Tensor& x, Tensor& sum) {
  sum.device().backend().elementwise().scale_add(1, x, 1, sum);
}

}  // namespace

Tensor Wanted::sum(std::size_t input) const {
  const GraphNode* const leaf = node_ != nullptr ? node_->inputs[input].get() : nullptr;
  return leaf != nullptr && leaf->accumulator ? leaf->accumulator->gradient() : Tensor();
}

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
    // A view or a shared tensor must not be changed later.
    if (!gradient.is_sole_owner() || gradient.bytes() != gradient.storage()->bytes()) gradient = gradient.clone();
    gradient.storage()->recategorize(category_);
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

Variable Variable::stand_in(Tensor value, Leads leads) {
  if (!leads.anywhere()) return {std::move(value)};
  auto node = make_leaf(value.device(), nullptr, leads);
  return {std::move(value), std::move(node)};
}

Leads Variable::leads() const {
  return node_ ? node_->leads : Leads{};
}

NoGrad::NoGrad(Device& device) : scope_(device.recorder(), Recording::nothing, device.recorder().segment()) {}

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
  if (!leads.anywhere() || device.recorder().recording() == Recording::nothing) return {std::move(output)};
  RecomputedSegment* const segment = device.recorder().segment();
  std::shared_ptr<GraphNode> node = segment ? segment->known_node() : nullptr;
  if (!node) {
    node = std::make_shared<GraphNode>(device.recorder().next_sequence(), leads);
    node->leads_to_collective = leads_to_collective;
    node->read(inputs);
  }
  if (device.recorder().records())
    node->vjp = std::move(vjp);
  else
    segment->keep(node);
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

}  // namespace heddle

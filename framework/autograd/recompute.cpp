#include "framework/autograd/recompute.h"

#include <utility>

#include "framework/autograd/graph_node.h"
#include "framework/error.h"
#include "framework/tensors/device.h"

namespace heddle {

RecomputedSegment::RecomputedSegment(std::span<const Variable> inputs, SegmentFunction function)
    : device_(inputs.front().device()), category_(device_.category()), function_(std::move(function)) {
  for (const Variable& input : inputs)
    inputs_.push_back(input.defined() ? Input{input.value(), input.leads()} : Input{});
}

void RecomputedSegment::keep(const std::shared_ptr<GraphNode>& node) {
  node->segment = shared_from_this();
  nodes_.push_back(node);
}

std::shared_ptr<GraphNode> RecomputedSegment::known_node() {
  if (!has_run_again()) return nullptr;
  if (next_ == nodes_.size())
    fail("recompute: the segment recorded {} operations, and more when it ran again", nodes_.size());
  return nodes_[next_++].lock();
}

void RecomputedSegment::run_again() {
  if (has_run_again()) return;
  const SegmentFunction function = std::exchange(function_, nullptr);
  std::vector<Variable> inputs;
  for (Input& input : std::exchange(inputs_, {}))
    inputs.push_back(Variable::stand_in(std::move(input.value), input.leads));
  const RecordingScope scope(device_.recorder(), Recording::everything, this);
  const MemoryScope memory(device_, category_);
  function(inputs, true);
  if (next_ != nodes_.size())
    fail("recompute: the segment recorded {} operations, and {} when it ran again", nodes_.size(), next_);
}

std::vector<Variable> recompute_segment(std::span<const Variable> inputs, const SegmentFunction& segment) {
  if (inputs.empty() || !inputs.front().defined()) fail<InputError>("recompute_segment: expected an input, got none");
  Device& device = inputs.front().device();
  if (const RecomputedSegment* const outer = device.recorder().segment())
    return segment(inputs, outer->has_run_again());
  if (!device.recorder().records()) return segment(inputs, false);
  const auto state = std::make_shared<RecomputedSegment>(inputs, segment);
  const RecordingScope scope(device.recorder(), Recording::edges, state.get());
  return segment(inputs, false);
}

}  // namespace heddle

// What the graph is made of; for recording and walking it only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "framework/autograd.h"

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
  /// The leaves below are known to wait for a weight part.
  bool is_deferred = false;
  /// This node is a collective; it or one that it was made of is.
  bool is_collective = false;
  bool leads_to_collective = false;
  std::vector<std::shared_ptr<GraphNode>> inputs;  // null: a constant
  Vjp vjp;
  std::shared_ptr<Accumulator> accumulator;
  /// Of a collective: what a gradient of its output is.
  std::function<Tensor()> zeros;
};

}  // namespace heddle

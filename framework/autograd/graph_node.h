// What the graph is made of; for recording and walking it only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "framework/autograd/autograd.h"
#include "framework/autograd/recompute.h"

namespace heddle {

class RecomputedSegment;

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
  /// Where the vjp comes from, if it was not kept.
  std::shared_ptr<RecomputedSegment> segment;
  Vjp vjp;
  std::shared_ptr<Accumulator> accumulator;
  /// Of a collective: what a gradient of its output is.
  std::function<Tensor()> zeros;
};

/// A stretch of the graph whose nodes were recorded without their vjps. Run again, it gives the same nodes the vjps
/// that its operations make this time.
class RecomputedSegment : public std::enable_shared_from_this<RecomputedSegment> {
 public:
  RecomputedSegment(std::span<const Variable> inputs, SegmentFunction function);

  /// Does nothing the second time.
  void run_again();
  bool has_run_again() const { return function_ == nullptr; }

  /// In the first run: a node without its vjp.
  void keep(const std::shared_ptr<GraphNode>& node);
  /// In the second: the next node of the first, null if it is gone because nothing needed it.
  std::shared_ptr<GraphNode> known_node();

 private:
  struct Input {
    Tensor value;
    Leads leads;
  };

  Device& device_;
  Category category_;
  std::vector<Input> inputs_;
  SegmentFunction function_;
  std::vector<std::weak_ptr<GraphNode>> nodes_;  // in order of creation
  std::size_t next_ = 0;
};

}  // namespace heddle

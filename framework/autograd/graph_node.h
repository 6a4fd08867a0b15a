// The nodes of the graph. Only the code that records and traverses the graph needs them.
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

/// A recorded operation, or a leaf, which has no inputs and, unless it stands in for another value, an accumulator.
/// Sequence numbers give the order of creation.
class GraphNode {
 public:
  GraphNode(std::uint64_t order, Leads where) : sequence(order), leads(where) {}
  ~GraphNode();
  GraphNode(const GraphNode&) = delete;
  GraphNode& operator=(const GraphNode&) = delete;

  void read(std::span<const Variable> variables);
  /// Drops the inputs without visiting them: no gradient will come from this node.
  std::vector<std::shared_ptr<GraphNode>> drop_inputs();
  /// Notes that an operation that has read this leaf was visited.
  void reader_walked() const;

  std::uint64_t sequence;
  Leads leads;
  bool freed = false;
  /// Whether the leaves to which this node leads wait for a weight part.
  bool is_deferred = false;
  /// Whether this node is a collective, and whether it or a node that it depends on is one.
  bool is_collective = false;
  bool leads_to_collective = false;
  std::vector<std::shared_ptr<GraphNode>> inputs;  // null: a constant
  /// The segment that has to run again to give the vjp, if that was not kept.
  std::shared_ptr<RecomputedSegment> segment;
  Vjp vjp;
  std::shared_ptr<Accumulator> accumulator;
  /// Makes a gradient of zeros for the output of a collective.
  std::function<Tensor()> zeros;
};

/// A part of the graph whose nodes were recorded without their vjps. When it runs again, its operations give these
/// nodes their vjps.
class RecomputedSegment : public std::enable_shared_from_this<RecomputedSegment> {
 public:
  RecomputedSegment(std::span<const Variable> inputs, SegmentFunction function);

  /// Does nothing if it has run again already.
  void run_again();
  bool has_run_again() const { return function_ == nullptr; }

  /// First run: notes a node that is recorded without its vjp.
  void keep(const std::shared_ptr<GraphNode>& node);
  /// Second run: the next node of the first run; null if it was freed because nothing needed it.
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

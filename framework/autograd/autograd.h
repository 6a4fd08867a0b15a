// Reverse-mode differentiation. An operation is one function: check, forward, `record`. The graph's edges are the only
// links between nodes; each edge knows whether it leads to a parameter or to a stage input, so that a vjp is told what
// is wanted and a backward can be split.
//
//   Variable sigmoid(const Variable& x) {
//     Tensor y = ...;
//     return record(y, {x}, [y](const Tensor& dy, Wanted) { return Gradients{...}; });
//   }
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

#include "framework/tensors/tensor.h"

namespace heddle {

class GraphNode;
class GraphWalk;

/// What an edge leads to; both bits may be set.
struct Leads {
  bool to_parameter = false;
  bool to_input = false;
  bool anywhere() const { return to_parameter || to_input; }
};

/// Which of an operation's inputs want a gradient. A vjp may return more than was wanted.
class Wanted {
 public:
  /// `later`: what a second call will ask for, if the first does not give it. `node`: whose vjp is asked.
  explicit Wanted(std::uint64_t now, std::uint64_t later = 0, const GraphNode* node = nullptr)
      : now_(now), later_(later), node_(node) {}
  bool operator[](std::size_t input) const { return ((now_ >> input) & 1U) != 0; }
  /// What is wanted in this call or in a later one: for a vjp that computes everything at once, and is then not called
  /// again.
  Wanted ever() const { return Wanted(now_ | later_); }
  /// The gradients that a leaf had before, if this input is one: a vjp that adds its own to them, as the last
  /// that it does, leaves it undefined.
  Tensor sum(std::size_t input) const;

 private:
  std::uint64_t now_;
  std::uint64_t later_;
  const GraphNode* node_;
};

/// One for each input, in order; undefined means zero or not wanted.
using Gradients = std::vector<Tensor>;
/// Vector-Jacobian product: from the output's gradient to the inputs'. Captures tensors only, never variables. A split
/// pass may call it twice with the same gradient, never for the same input: what one call alone reads may go with it,
/// but only a vjp that gives all that is `ever` wanted may overwrite its argument.
using Vjp = std::function<Gradients(const Tensor&, Wanted)>;

/// Where a leaf's gradient arrives. Parameters and stage inputs each hold one. It counts the operations that have read
/// the leaf and are neither walked nor dropped, and so knows when a gradient is the last.
class Accumulator {
 public:
  explicit Accumulator(Category category) : category_(category) {}
  Accumulator(const Accumulator&) = delete;
  Accumulator& operator=(const Accumulator&) = delete;
  /// Takes the tensor over if nobody else holds it, else adds it in place to what is there.
  void add(Tensor gradient);
  /// Undefined if none came since the last clear.
  const Tensor& gradient() const { return gradient_; }
  void set(Tensor gradient) { gradient_ = std::move(gradient); }
  void clear() { gradient_ = Tensor(); }

  /// Readers of the leaf whose gradients may still come, in all graphs that live.
  std::int64_t pending_readers() const { return pending_readers_; }
  /// A backward pass calls this, in the midst of its walk, when it has walked the last reader: this accumulator's
  /// gradient is then complete, or will not come. An empty function: nobody wants to know.
  void when_ready(std::function<void()> ready) { ready_ = std::move(ready); }

 private:
  friend class GraphNode;
  friend class GraphWalk;

  Category category_;
  Tensor gradient_;
  std::int64_t pending_readers_ = 0;
  /// Edges by which weight parts that have not run yet may still add here.
  std::int64_t deferred_ = 0;
  std::function<void()> ready_;
};

/// A tensor and the node that made it.
class Variable {
 public:
  Variable() = default;
  /// A constant: no gradient flows to it.
  Variable(Tensor value) : value_(std::move(value)) {}  // NOLINT(google-explicit-constructor): constants read plainly

  /// A leaf whose gradient arrives in `accumulator`.
  static Variable parameter(Tensor value, std::shared_ptr<Accumulator> accumulator);
  static Variable input(Tensor value, std::shared_ptr<Accumulator> accumulator);

  bool defined() const { return value_.defined(); }
  const Tensor& value() const { return value_; }
  const Shape& shape() const { return value_.shape(); }
  DType dtype() const { return value_.dtype(); }
  Device& device() const { return value_.device(); }
  Leads leads() const;
  const std::shared_ptr<GraphNode>& node() const { return node_; }
  /// Lets the tensor go and keeps the way back: all that is left to do with it is to be a backward pass's root.
  void release_value() { value_ = Tensor(); }

 private:
  friend Variable record(Tensor, std::span<const Variable>, Vjp);
  friend class RecomputedSegment;
  /// A leaf that leads where another variable leads.
  static Variable stand_in(Tensor value, Leads leads);
  Variable(Tensor value, std::shared_ptr<GraphNode> node) : value_(std::move(value)), node_(std::move(node)) {}

  Tensor value_;
  std::shared_ptr<GraphNode> node_;
};

/// Ties an operation's result to its inputs (at most 64). Keeps nothing if no input leads anywhere or within NoGrad.
Variable record(Tensor output, std::span<const Variable> inputs, Vjp vjp);
Variable record(Tensor output, std::initializer_list<Variable> inputs, Vjp vjp);

/// The same for an operation whose vjp other ranks wait for: a backward pass runs it whenever its output is among what
/// the roots were made of, on zeros if no gradient came. The vjp gives all that is `ever` wanted in one call.
Variable record_collective(Tensor output, std::span<const Variable> inputs, Vjp vjp);
Variable record_collective(Tensor output, std::initializer_list<Variable> inputs, Vjp vjp);

/// Where a backward pass starts: d(loss)/d(output) for one output. An undefined gradient: none came, and only the
/// collectives that the output was made of are walked.
struct Root {
  Variable output;
  Tensor gradient;
};

/// Walks back from the roots in reverse order of creation. Every node is freed, with all that its vjp holds, as soon as
/// it has run; going through a freed node again is an error. Gradients arrive in the leaves' accumulators as soon as
/// they are computed.
void backward(std::vector<Root> roots);
/// From a one-element loss with gradient 1.
void backward(const Variable& loss);

/// The weight part of a backward pass whose input part has run. Holds what that part needs; if it goes unrun, those
/// gradients do not come.
class WeightBackward {
 public:
  WeightBackward();
  ~WeightBackward();
  WeightBackward(WeightBackward&&) noexcept;
  WeightBackward& operator=(WeightBackward&&) noexcept;

  /// Nothing is left to do.
  bool empty() const { return walk_ == nullptr; }
  /// Once; empty afterwards.
  void run();

 private:
  friend WeightBackward backward_inputs(std::vector<Root>);
  explicit WeightBackward(std::unique_ptr<GraphWalk> walk);

  std::unique_ptr<GraphWalk> walk_;
};

/// The input part (Qi et al. 2023, "Zero bubble pipeline parallelism"): walks what leads to stage inputs. Their
/// gradients arrive, and those of parameters that a vjp gave beside them. What has no more to give is freed; the rest
/// keeps its gradient for the weight part, which also walks all that leads to parameters only. Both parts give the same
/// bits as `backward`, and add to each parameter in the same order.
WeightBackward backward_inputs(std::vector<Root> roots);

}  // namespace heddle

// Reverse-mode differentiation. An operation is one function: it checks its arguments, computes the result and calls
// `record`. Nodes are linked by the graph's edges only. Each node records whether it leads to a parameter, to a stage
// input or to both, so that a vjp computes no unused gradient and a backward pass can be split in two.
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

#include "framework/autograd/recorder.h"
#include "framework/tensors/tensor.h"

namespace heddle {

class GraphNode;
class GraphWalk;

/// What a node leads to; both bits may be set.
struct Leads {
  bool to_parameter = false;
  bool to_input = false;
  bool anywhere() const { return to_parameter || to_input; }
};

/// The inputs of an operation whose gradients a vjp must return. It may return more.
class Wanted {
 public:
  /// `now` and `later` are sets of bits, one for each input: the gradients that this call must return, and those that a
  /// second call must return unless this one does. `node` is the node whose vjp is called.
  explicit Wanted(std::uint64_t now, std::uint64_t later = 0, const GraphNode* node = nullptr)
      : now_(now), later_(later), node_(node) {}
  bool operator[](std::size_t input) const { return ((now_ >> input) & 1U) != 0; }
  /// The gradients that this call or a later one must return. A vjp that returns all of them is not called again.
  Wanted ever() const { return Wanted(now_ | later_); }
  /// The gradient that has been accumulated in this input so far, if it is a leaf; else undefined. A vjp may add its
  /// own gradient to it in place, as its last action, and then returns none for this input.
  Tensor sum(std::size_t input) const;

 private:
  std::uint64_t now_;
  std::uint64_t later_;
  const GraphNode* node_;
};

/// One gradient for each input, in order; undefined means zero or not wanted.
using Gradients = std::vector<Tensor>;
/// Vector-Jacobian product: from the output's gradient to those of the inputs. It captures tensors only, never
/// variables. A split backward pass may call it twice with the same gradient, but never twice for the same input. A vjp
/// may free, after a call, what the other call does not need; it may overwrite its argument only if it gives everything
/// that is `ever` wanted.
using Vjp = std::function<Gradients(const Tensor&, Wanted)>;

/// Collects the gradient of one leaf, which is a parameter or a stage input. It counts the operations that have read
/// the leaf and were neither visited by a backward pass nor dropped, and so knows when the gradient is complete.
class Accumulator {
 public:
  explicit Accumulator(Category category) : category_(category) {}
  Accumulator(const Accumulator&) = delete;
  Accumulator& operator=(const Accumulator&) = delete;
  /// Adds a gradient in place to the sum so far. The first gradient becomes the sum if no other handle shares it.
  void add(Tensor gradient);
  /// Undefined if no gradient has arrived since the last clear.
  const Tensor& gradient() const { return gradient_; }
  void set(Tensor gradient) { gradient_ = std::move(gradient); }
  void clear() { gradient_ = Tensor(); }

  /// The number of operations in all existing graphs that have read the leaf and whose gradients may still arrive.
  std::int64_t pending_readers() const { return pending_readers_; }
  /// A backward pass calls `ready` as soon as it has visited the last reader: the gradient is then complete, or there
  /// will be none. An empty function is not called.
  void when_ready(std::function<void()> ready) { ready_ = std::move(ready); }

 private:
  friend class GraphNode;
  friend class GraphWalk;

  Category category_;
  Tensor gradient_;
  std::int64_t pending_readers_ = 0;
  /// The number of edges through which weight parts that have not run yet may still add to the gradient.
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
  /// Drops the tensor and keeps the node: the variable can then only be a root of a backward pass.
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

/// During its lifetime, the device's operations record nothing and so keep no tensors.
class NoGrad {
 public:
  explicit NoGrad(Device& device);

 private:
  RecordingScope scope_;
};

/// Records that an operation computed `output` from `inputs`, of which there are at most 64. Keeps nothing within
/// NoGrad, or if no input leads to a parameter or a stage input.
Variable record(Tensor output, std::span<const Variable> inputs, Vjp vjp);
Variable record(Tensor output, std::initializer_list<Variable> inputs, Vjp vjp);

/// The same for an operation whose vjp is a collective, which other ranks wait for: a backward pass calls it whenever
/// the roots depend on its output, with zeros if no gradient has arrived. The vjp gives everything that is `ever`
/// wanted in one call.
Variable record_collective(Tensor output, std::span<const Variable> inputs, Vjp vjp);
Variable record_collective(Tensor output, std::initializer_list<Variable> inputs, Vjp vjp);

/// Where a backward pass starts: an output and d(loss)/d(output). If the gradient is undefined, the pass starts
/// instead at the collectives that the output depends on, with zeros.
struct Root {
  Variable output;
  Tensor gradient;
};

/// Visits the nodes that the roots depend on, in reverse order of creation. Every node is freed, with all that its vjp
/// holds, as soon as its vjp has run; visiting a freed node again is an error. Gradients arrive in the leaves'
/// accumulators as soon as they are computed.
void backward(std::vector<Root> roots);
/// The same from a loss of one element, whose gradient is 1.
void backward(const Variable& loss);

/// The weight part of a backward pass whose input part has run. It holds all that it needs to run; if it is destroyed
/// before it has run, its gradients are lost.
class WeightBackward {
 public:
  WeightBackward();
  ~WeightBackward();
  WeightBackward(WeightBackward&&) noexcept;
  WeightBackward& operator=(WeightBackward&&) noexcept;

  /// Whether nothing is left to do.
  bool empty() const { return walk_ == nullptr; }
  /// May be called once; the object is empty afterwards.
  void run();

 private:
  friend WeightBackward backward_inputs(std::vector<Root>);
  explicit WeightBackward(std::unique_ptr<GraphWalk> walk);

  std::unique_ptr<GraphWalk> walk_;
};

/// The input part of a backward pass (Qi et al. 2023, "Zero bubble pipeline parallelism"): visits the nodes that lead
/// to stage inputs. It computes the gradients of those inputs, and of those parameters for which a vjp gives them in
/// the same call. Nodes that have given everything are freed; the others keep their output's gradient for the weight
/// part, which also visits the nodes that lead to parameters only. Both parts together give the same bits as
/// `backward`, and add to each parameter in the same order.
WeightBackward backward_inputs(std::vector<Root> roots);

}  // namespace heddle

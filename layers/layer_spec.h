// A layer before it is built: its attributes, its shapes and the ways in which it can be placed along an axis of the
// mesh. The planner and `explain` need no more; `build` makes the layer that a rank runs. All shapes are those of whole
// tensors, as in a serial run.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "layers/inference_graph.h"
#include "layers/layer.h"
#include "layers/layer_layout.h"
#include "parallel/communicator/transport.h"

namespace heddle {

/// The reason why a layer cannot be placed as requested.
struct Refusal {
  std::string why;
};

/// An axis of the mesh on which a layer is to be placed.
struct AxisUse {
  Axis axis = Axis::tp;
  int ranks = 1;
};

/// A collective that a layer needs for itself, besides those that redistribute its inputs, weights and gradients.
struct LayerCollective {
  enum class When { forward, backward, step_end };
  When when = When::forward;
  Operation operation = Operation::all_reduce;
  AxisSet axes{};
  std::int64_t elements = 0;  // the elements of the tensor that link_model.h's table counts in bytes
  DType dtype = DType::f32;
  std::optional<std::int64_t> sent{};  // elements that rank 0 passes to the transport; if empty: those of even parts
  std::int64_t times = 1;              // how often it is repeated
};

class LayerSpec {
 public:
  virtual ~LayerSpec() = default;
  /// The name in an experiment: `conv2d`.
  virtual std::string_view type() const = 0;
  /// InputError says which inputs the layer expects.
  virtual Shape output(std::span<const Shape> inputs) const = 0;
  /// The same in evaluation, for the layers whose output has another shape in training.
  virtual Shape evaluation_output(std::span<const Shape> inputs) const { return output(inputs); }
  /// In the order of Layer::parameters().
  virtual std::vector<Shape> parameters() const { return {}; }
  /// The number of elements of all parameters.
  std::int64_t parameter_elements() const;
  /// The number of elements of the parameters that are trained.
  std::int64_t trained_elements() const;
  /// Whether a parameter is trained.
  virtual bool trains(std::size_t /*parameter*/) const { return true; }
  /// The number of random streams that building it takes: one per parameter, and those that it draws from itself.
  virtual std::uint32_t streams() const { return static_cast<std::uint32_t>(parameters().size()); }
  /// The number of multiplications and additions in one forward pass.
  virtual double flops(std::span<const Shape> /*inputs*/) const { return 0; }
  /// The placements of its inputs, output and parameters if it is placed as `kind` along an axis.
  virtual std::variant<LayerOption, Refusal> option(Parallel kind, AxisUse use,
                                                    std::span<const Shape> inputs) const = 0;
  /// The collectives between the layer's ranks in training with tensors of this type; those at `step_end` happen once
  /// for all micro-batches.
  virtual std::vector<LayerCollective> collectives(const LayerLayout& /*layout*/, DType /*dtype*/,
                                                   std::int64_t /*micro_batches*/) const {
    return {};
  }
  /// The parts of a batch that it normalises separately, by their statistics; 0 if it normalises no sample by others.
  virtual std::int64_t norm_groups(std::int64_t /*dp*/, std::int64_t /*micro_batches*/) const { return 0; }
  /// Whether it is placed like its neighbours by default; else its default is `data`.
  virtual bool follows() const { return true; }
  virtual LayerPointer build(Construction& construction, const std::string& name, const LayerLayout& layout) const = 0;
  /// Appends what the layer computes in evaluation to a graph for other programs, and returns its output there.
  virtual InferenceValue write(InferenceGraph& graph, const std::string& name, const InferenceInputs& inputs) const = 0;
};

using LayerSpecPointer = std::shared_ptr<const LayerSpec>;

/// The options of layers that treat all samples alike: `replicate` and `data`, and if they have parameters also
/// `parameter`.
std::variant<LayerOption, Refusal> samples_only(Parallel kind, std::size_t inputs, std::size_t parameters);
/// The same without `parameter`, for layers whose parameters are too small to be gathered.
std::variant<LayerOption, Refusal> samples_ungathered(Parallel kind, std::size_t inputs, std::size_t parameters);
/// The option `sequence` of layers that treat all tokens of their inputs [n, tokens, features] alike.
std::variant<LayerOption, Refusal> sequence_option(AxisUse use, std::span<const Shape> inputs, std::size_t parameters);
/// The options of samples_ungathered, and `group`, for layers that also treat all channels (the last dimension) alike:
/// the parameters [C] are cut like the channels.
std::variant<LayerOption, Refusal> samples_or_channels(Parallel kind, AxisUse use, std::span<const Shape> inputs,
                                                       const Shape& output, std::size_t parameters);

/// A layer that treats all samples and all channels alike, described by what distinguishes it.
struct ChannelwiseLayer {
  std::string_view type;
  std::size_t inputs = 1;
  std::vector<Shape> parameters{};
  std::uint32_t own_streams = 0;  // random streams besides those of the parameters
  /// The shape of the output; that of the first input if there is no function.
  std::function<Shape(const Shape&)> output{};
  std::function<LayerPointer(Construction&, const std::string& name, const LayerLayout&)> build;
  std::function<InferenceValue(InferenceGraph&, const std::string& name, const InferenceInputs&)> write;
};
LayerSpecPointer channelwise_spec(ChannelwiseLayer layer);

}  // namespace heddle

// What a layer is before it is built: attributes, shapes, and what it can do along an axis of the mesh. The planner and
// `explain` need no more; `build` makes the layer that a rank runs. All shapes are those of whole tensors, as a serial
// run has them.
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

#include "layers/layer.h"
#include "layers/layout.h"
#include "parallel/communicator/transport.h"

namespace heddle {

/// Why a layer cannot do what was asked.
struct Refusal {
  std::string why;
};

/// An axis of the mesh on which a layer is to be placed.
struct AxisUse {
  Axis axis = Axis::tp;
  int ranks = 1;
};

/// A collective that is the layer's own, beside those that bring its inputs, weights and gradients into place.
struct LayerExchange {
  enum class When { forward, backward, step_end };
  When when = When::forward;
  Operation operation = Operation::all_reduce;
  AxisSet axes{};
  std::int64_t elements = 0;  // what link_model.h's table gives in bytes
  DType dtype = DType::f32;
  std::optional<std::int64_t> sent{};  // elements that rank 0 hands over; none: those of even parts
  std::int64_t times = 1;              // each of so many
};

class LayerDescription {
 public:
  virtual ~LayerDescription() = default;
  /// As in an experiment: `conv2d`.
  virtual std::string_view type() const = 0;
  /// InputError says which inputs it expects.
  virtual Shape output(std::span<const Shape> inputs) const = 0;
  /// In the order of Layer::parameters().
  virtual std::vector<Shape> parameters() const { return {}; }
  /// Random streams that building it takes: one a parameter, and those of its own draws.
  virtual std::uint32_t streams() const { return static_cast<std::uint32_t>(parameters().size()); }
  /// Multiplications and additions of one forward pass.
  virtual double flops(std::span<const Shape> /*inputs*/) const { return 0; }
  /// What it takes and gives if it is `kind` along an axis.
  virtual std::variant<LayerOption, Refusal> option(Parallel kind, AxisUse use,
                                                    std::span<const Shape> inputs) const = 0;
  /// What the layer's ranks tell each other in training, of tensors of a type; `step_end` once for all micro-batches.
  virtual std::vector<LayerExchange> exchanges(const LayerLayout& /*layout*/, DType /*dtype*/,
                                               std::int64_t /*micro_batches*/) const {
    return {};
  }
  /// Whether it works where its neighbours are placed, unless told otherwise; else it is `data` by default.
  virtual bool follows() const { return true; }
  virtual LayerPointer build(Construction& construction, const std::string& name, const LayerLayout& layout) const = 0;
};

using DescriptionPointer = std::shared_ptr<const LayerDescription>;

/// The options of layers that treat the samples alike: `replicate` and `data`, with parameters also `parameter`.
std::variant<LayerOption, Refusal> samples_only(Parallel kind, std::size_t inputs, std::size_t parameters);
/// Those of layers that treat the channels (the last dimension) alike, too: `group`, with parameters [C] cut like them.
std::variant<LayerOption, Refusal> samples_or_channels(Parallel kind, AxisUse use, std::span<const Shape> inputs,
                                                       const Shape& output, std::size_t parameters);

/// A layer that treats samples and channels alike, described by what is its own.
struct ChannelwiseLayer {
  std::string_view type;
  std::size_t inputs = 1;
  std::vector<Shape> parameters{};
  std::uint32_t own_streams = 0;  // random, beside those of the parameters
  /// That of the first input if there is no function.
  std::function<Shape(const Shape&)> output{};
  std::function<LayerPointer(Construction&, const std::string& name, const LayerLayout&)> build;
};
DescriptionPointer describe_channelwise(ChannelwiseLayer layer);

}  // namespace heddle

// How the layers of a model lie over the mesh: what a layer does along each axis, and the part of it that a rank holds.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "framework/description/enum_table.h"
#include "framework/tensors/shape.h"
#include "parallel/communicator/shard.h"
#include "parallel/placement/mesh.h"
#include "parallel/placement/placement.h"

namespace heddle {

/// What the ranks along one axis do with a layer.
enum class Parallel {
  replicate,  // the same work on every rank
  data,       // other samples on every rank; gradients of its parameters are summed
  parameter,  // as data, but each rank keeps a part of the parameters and gathers the whole before use (ZeRO-3, FSDP)
  column,  // output channels: each rank has the rows of the weight that make its outputs (Megatron's column parallel)
  row,     // input channels: outputs are partial sums (Megatron's row parallel)
  group    // channels from input to output: groups of a convolution, or any layer that treats channels alike
};
template <>
inline constexpr auto enum_names<Parallel> = enum_table<Parallel>({
    {Parallel::replicate, "replicate"},
    {Parallel::data, "data"},
    {Parallel::parameter, "parameter"},
    {Parallel::column, "column"},
    {Parallel::row, "row"},
    {Parallel::group, "group"},
});

/// What a layer takes and gives along one axis.
struct LayerOption {
  Parallel kind = Parallel::replicate;
  std::vector<Placement> inputs{};
  Placement output{};
  /// In the order of the layer's parameters: where value and gradient lie while the layer computes. R/P: gradients are
  /// summed over the axis.
  std::vector<Placement> parameters{};
};

/// The part of a whole parameter that a rank holds: a box of it, or, where weights are gathered before use, a range of
/// that box's elements in row-major order.
struct ParameterPart {
  Shape whole;
  std::vector<ShardRange> box;           // of each dimension
  AxisSet sharded;                       // axes along which the ranks hold other parts, or nothing of it
  AxisSet partial;                       // axes along which gradients are partial sums
  std::optional<ShardRange> elements{};  // of the box, row-major; none: all of it
  std::optional<Axis> gathered{};        // the axis whose ranks gather their elements before use

  /// A parameter that the rank holds all of.
  static ParameterPart all_of(const Shape& whole);
  /// Of the box: what the layer computes with.
  Shape shape() const;
  /// Of what the rank holds.
  Shape held_shape() const { return elements ? Shape{elements->size} : shape(); }
};

/// Held elements that are neighbours in the whole, too.
struct ElementRun {
  std::int64_t held = 0;   // first element within what the rank holds
  std::int64_t whole = 0;  // its row-major index in the whole parameter
  std::int64_t count = 0;
};
/// All runs of a part, in order.
void for_each_run(const ParameterPart& part, const std::function<void(const ElementRun&)>& visit);

/// Elements that two parts of one whole both hold, neighbours in either.
struct SharedRun {
  std::int64_t a = 0;  // first element within what a holds
  std::int64_t b = 0;
  std::int64_t count = 0;
};
/// All of two parts of one whole, in the order of the whole's elements.
void for_each_shared_run(const ParameterPart& a, const ParameterPart& b,
                         const std::function<void(const SharedRun&)>& visit);

/// One layer's place on the mesh, seen by one rank.
struct LayerLayout {
  Mesh mesh{};
  Mesh::Coordinates at{};
  PerAxis<LayerOption> options{};
  std::vector<Shape> inputs{};  // whole, of one sample: [1, ..]

  Placements input(std::size_t index) const;
  Placements output() const;
  ParameterPart part(std::size_t parameter, const Shape& whole) const;
  /// Axes along which the layer is `kind`.
  AxisSet axes(Parallel kind) const;
};

/// The layout of a layer that one rank has for itself.
LayerLayout serial_layout(std::size_t inputs, std::size_t parameters);

}  // namespace heddle

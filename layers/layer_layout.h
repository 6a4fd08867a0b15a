// How the layers of a model are placed on the mesh: how each is placed along each axis, and which part of it a rank
// holds.
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

/// How the ranks along one axis share the work of a layer.
enum class Parallel {
  replicate,  // every rank does the same work
  data,       // every rank has different samples; gradients of the parameters are summed
  parameter,  // as data, but each rank keeps a part of the parameters and gathers them before use (ZeRO-3, FSDP)
  column,     // each rank computes some output channels with its rows of the weight (Megatron's column parallel)
  row,        // each rank has some input channels; outputs are partial sums (Megatron's row parallel)
  group,      // each rank has some channels of input and output: a grouped convolution, or a layer that treats channels
              // alike
  sequence    // each rank has some tokens of every sample; gradients of the parameters are summed (Korthikanti et al.
              // 2022)
};
template <>
inline constexpr auto enum_names<Parallel> = enum_table<Parallel>({
    {Parallel::replicate, "replicate"},
    {Parallel::data, "data"},
    {Parallel::parameter, "parameter"},
    {Parallel::column, "column"},
    {Parallel::row, "row"},
    {Parallel::group, "group"},
    {Parallel::sequence, "sequence"},
});

/// The placements of a layer's inputs, output and parameters along one axis.
struct LayerOption {
  Parallel kind = Parallel::replicate;
  std::vector<Placement> inputs{};
  Placement output{};
  /// In the order of the layer's parameters: the placements of value and gradient while the layer computes. R/P means
  /// that gradients are summed over the axis.
  std::vector<Placement> parameters{};
};

/// The part of a whole parameter that a rank holds: a box of it, or, if weights are gathered before use, a range of
/// that box's elements in row-major order.
struct ParameterPart {
  Shape whole;
  std::vector<IndexRange> box;  // one range per dimension
  /// Axes along which the ranks hold different parts, or none. With several stages pp is one of them, although the two
  /// copies of a stage hold the same part (Axis::copies).
  AxisSet sharded;
  AxisSet partial;                       // axes along which gradients are partial sums
  std::optional<IndexRange> elements{};  // a range of the box, row-major; if empty: all of it
  std::optional<Axis> gathered{};        // the axis whose ranks gather their elements before use

  /// The part of a rank that holds the whole parameter.
  static ParameterPart all_of(const Shape& whole);
  /// The shape of the box, with which the layer computes.
  Shape shape() const;
  /// The shape of what the rank holds.
  Shape held_shape() const { return elements ? Shape{elements->size} : shape(); }
};

/// Consecutive elements of a part that are also consecutive in the whole parameter.
struct ElementRun {
  std::int64_t held = 0;   // index of the first element within what the rank holds
  std::int64_t whole = 0;  // its row-major index in the whole parameter
  std::int64_t count = 0;
};
/// Visits all runs of a part, in order.
void for_each_run(const ParameterPart& part, const std::function<void(const ElementRun&)>& visit);

/// Elements that two parts of the same parameter both hold, consecutive in both.
struct SharedRun {
  std::int64_t a = 0;  // index of the first element within what a holds
  std::int64_t b = 0;
  std::int64_t count = 0;
};
/// Visits all shared runs of two parts of the same parameter, in the order of the parameter's elements.
void for_each_shared_run(const ParameterPart& a, const ParameterPart& b,
                         const std::function<void(const SharedRun&)>& visit);

/// The layout of one layer, as one rank sees it.
struct LayerLayout {
  Mesh mesh{};
  Mesh::Coordinates at{};
  PerAxis<LayerOption> options{};
  std::vector<Shape> inputs{};  // the whole shapes for one sample: [1, ..]

  Placements input(std::size_t index) const;
  Placements output() const;
  ParameterPart part(std::size_t parameter, const Shape& whole) const;
  /// The axes along which the layer is placed as `kind`.
  AxisSet axes(Parallel kind) const;
};

}  // namespace heddle

// How a tensor is placed on the mesh: along each axis, every rank holds all of it, a part of it, or a term of a sum. A
// placement covers the value and its gradient, because the two may differ:
//
//   R      replicated, its gradient as well (every rank has the whole gradient)
//   R/P    replicated, its gradient a partial sum: ranks use the value in different ways
//   S(d)   sharded along dimension d (shard() gives each rank's part), its gradient as well
//   P      a term of the value, which is the sum over the ranks; its gradient replicated
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "framework/tensors/shape.h"
#include "parallel/communicator/shard.h"
#include "parallel/placement/mesh.h"

namespace heddle {

class Placement {
 public:
  /// Makes the placement R.
  constexpr Placement() = default;
  static constexpr Placement replicate() { return {}; }
  static constexpr Placement replicate_partial() { return {Spread::replicated, Spread::partial, {}}; }
  static constexpr Placement shard(int dimension) { return {Spread::sharded, Spread::sharded, dimension}; }
  static constexpr Placement partial() { return {Spread::partial, Spread::replicated, {}}; }

  constexpr Spread value() const { return value_; }
  constexpr Spread gradient() const { return gradient_; }
  /// The dimension of a shard, counted from the front; other kinds have none.
  constexpr std::optional<int> dimension() const { return dimension_; }
  constexpr bool is_shard_of(int dimension) const { return value_ == Spread::sharded && dimension_ == dimension; }
  constexpr bool operator==(const Placement&) const = default;

 private:
  constexpr Placement(Spread value, Spread gradient, std::optional<int> dimension)
      : value_(value), gradient_(gradient), dimension_(dimension) {}

  Spread value_ = Spread::replicated;
  Spread gradient_ = Spread::replicated;
  std::optional<int> dimension_{};
};

/// `R`, `R/P`, `S(0)`, `P`.
std::string to_string(const Placement& placement);

/// Where several axes shard one dimension, they cut it in the order dp, pp, tp: the dimension is cut into shards along
/// dp, each of these along pp, and each of those along tp.
using Placements = PerAxis<Placement>;

/// `dp S(0), tp R`: the axes of this mesh that have more than one rank; `R` if none has.
std::string to_string(const Placements& placements, const Mesh& mesh);
/// The same placements with R along axes of one rank, where all placements are equivalent.
Placements normalized(Placements placements, const Mesh& mesh);
/// InputError unless every sharded dimension is one of this shape's.
void check_placements(const Shape& whole, const Placements& placements, const Mesh& mesh);

/// The part of each dimension that the rank at these coordinates holds: a box of the whole tensor.
std::vector<IndexRange> local_box(const Shape& whole, const Placements& placements, const Mesh& mesh,
                                  const Mesh::Coordinates& at);
/// The shape of that box. The rank at the coordinates 0, 0, 0 has the largest box.
Shape local_shape(const Shape& whole, const Placements& placements, const Mesh& mesh, const Mesh::Coordinates& at);

}  // namespace heddle

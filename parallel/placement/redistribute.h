// Redistributes a value from one placement on the mesh to another. The forward and the backward pass use the
// collectives of the table in redistribution_steps.h.
#pragma once

#include "framework/autograd/autograd.h"
#include "parallel/placement/mesh_groups.h"
#include "parallel/placement/redistribution_steps.h"

namespace heddle {

/// This rank's part of a tensor of shape `whole`, placed as `where` says.
struct Placed {
  Variable value;
  Shape whole;
  Placements where;
};

/// All ranks of the mesh that share the value call it together, and its backward runs on all of them: the value needs a
/// gradient on all of them or on none, and every rank has a loss. Slices of rows and values that do not change are not
/// copied. InputError if the value is not the part that its placement says, or is a sum (P) of integers.
Placed redistribute(const Placed& x, const Placements& to, MeshGroups& groups);

/// From data- to model-parallel: S(0) -> S(dimension) along one axis, one all_to_all; and back. InputError if x has a
/// different placement along it.
Placed dp2mp(const Placed& x, int dimension, Axis axis, MeshGroups& groups);
Placed mp2dp(const Placed& x, int dimension, Axis axis, MeshGroups& groups);

/// Without a graph, along one axis: `outer` is the shape of x where it is replicated along it.
Tensor redistribute_along(const Tensor& x, const Distribution& from, const Distribution& to, const Shape& outer,
                          Communicator& along);

}  // namespace heddle

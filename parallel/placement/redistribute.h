// A value that lies on the mesh by a placement, and its way to another placement: forward and backward are the
// collectives of redistribution.h's table.
#pragma once

#include "framework/autograd/autograd.h"
#include "parallel/placement/mesh_groups.h"
#include "parallel/placement/redistribution.h"

namespace heddle {

/// This rank's part of a tensor of shape `whole`, placed as `where` says.
struct Placed {
  Variable value;
  Shape whole;
  Placements where;
};

/// All ranks of the mesh that share the value call it together, and its backward runs on all of them: the value leads
/// to a gradient on all or on none, and every rank has a loss. Slices of rows and what does not change copy nothing.
/// InputError if the value is not the part that its placement says, or is a sum (P) of integers.
Placed redistribute(const Placed& x, const Placements& to, MeshGroups& groups);

/// From data- to model-parallel: S(0) -> S(dimension) along one axis, one all_to_all; and back.
/// InputError if x is placed otherwise along it.
Placed dp2mp(const Placed& x, int dimension, Axis axis, MeshGroups& groups);
Placed mp2dp(const Placed& x, int dimension, Axis axis, MeshGroups& groups);

/// Without a graph, along one axis: `outer` is the shape of x where it is replicated along it.
Tensor convert(const Tensor& x, const Half& from, const Half& to, const Shape& outer, Communicator& along);

}  // namespace heddle

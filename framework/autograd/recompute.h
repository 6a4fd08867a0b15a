// Activations made twice rather than kept (Chen et al. 2016, "Training deep nets with sublinear memory cost").
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "framework/autograd/autograd.h"

namespace heddle {

/// From a segment's inputs to its outputs. `recomputing`: it has run with them before, and must do the same again;
/// running statistics and the like are not to be counted twice.
using SegmentFunction = std::function<std::vector<Variable>(std::span<const Variable> inputs, bool recomputing)>;

/// Runs `segment` and keeps its inputs alone. Its operations are in the graph, with edges to what they read, but
/// without what their vjps hold; the first of them that a backward pass comes to has the segment run again, in the
/// midst of the pass, to make up for that. So leaves, readers, collectives, the parts of a split pass and the order in
/// which gradients add up are as without this, and so are the bits.
///
/// Collectives in the segment run again too: in the same order on all ranks. A segment within another is part of that
/// one. At least one input.
std::vector<Variable> recompute_segment(std::span<const Variable> inputs, const SegmentFunction& segment);

}  // namespace heddle

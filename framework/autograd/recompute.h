// Activations that are computed again in the backward pass rather than kept (Chen et al. 2016, "Training deep nets with
// sublinear memory cost").
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "framework/autograd/autograd.h"

namespace heddle {

/// Computes a segment's outputs from its inputs. If `recomputing`, it has run with these inputs before and must do the
/// same again, except that it must not update running statistics and the like a second time.
using SegmentFunction = std::function<std::vector<Variable>(std::span<const Variable> inputs, bool recomputing)>;

/// Runs `segment` and keeps only its inputs. Its operations are recorded in the graph, with edges to what they read,
/// but without their vjps. When a backward pass visits the first of them, the segment runs again and gives them their
/// vjps. Leaves, readers, collectives, the parts of a split pass and the order in which gradients add up are therefore
/// the same as without recomputation, and so are the bits.
///
/// Collectives in the segment run again too, in the same order on all ranks. A segment within another one becomes part
/// of it. At least one input is required.
std::vector<Variable> recompute_segment(std::span<const Variable> inputs, const SegmentFunction& segment);

}  // namespace heddle

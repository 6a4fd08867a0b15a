// Weights of which each rank keeps a flat shard, and which are whole only while they are used (ZeRO-3; Zhao et al.,
// "PyTorch FSDP: experiences on scaling fully sharded data parallel", 2023).
//
//   const Variable y = with_gathered({{{weight_shard, {out, in}, ranks}}}, [&](std::span<const Variable> whole) {
//     return linear(x, whole[0], {});
//   });
#pragma once

#include <functional>
#include <optional>
#include <span>

#include "framework/autograd/autograd.h"
#include "parallel/communicator/communicator.h"

namespace heddle {

struct GatheredWeight {
  /// This rank's elements [size]: shard(numel, ranks, rank) of the whole in row-major order.
  Variable shard;
  Shape whole;
  Communicator* ranks = nullptr;
  /// The type in which the whole weight is gathered and used; if empty, the shard's. Gradients are summed in the
  /// shard's type.
  std::optional<DType> type{};
};

/// The result of `use`, which is given the whole weights. They are gathered before it and freed after it. Weights that
/// its operations have captured are gathered again when the backward pass reaches the result, and freed once it has
/// visited the last of these operations. The gradients of the whole weights are summed over the ranks and scattered to
/// the shards. All ranks make the same calls; the result must not be a view of a weight. Whole weights are charged to
/// Category::communication.
Variable with_gathered(std::span<const GatheredWeight> weights,
                       const std::function<Variable(std::span<const Variable>)>& use);

}  // namespace heddle

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
  /// In which the whole is gathered and used; none: the shard's. Its gradient is summed in the shard's.
  std::optional<DType> type{};
};

/// The result of `use`, which is handed the whole weights. They are gathered for it and let go after it; what its
/// operations have captured of them is gathered again when the backward pass comes to its result, and let go when the
/// last of these operations was walked. The whole gradients are summed over the ranks and scattered to the shards. All
/// ranks make the same calls; the result must not be a view of a weight. While whole, weights are charged to
/// Category::communication.
Variable with_gathered(std::span<const GatheredWeight> weights,
                       const std::function<Variable(std::span<const Variable>)>& use);

}  // namespace heddle

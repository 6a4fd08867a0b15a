// Collectives as operations of the graph: the backward of each is its dual.
//
//   forward                  backward                            forward       backward
//   all_reduce               all_reduce, or nothing              broadcast     reduce
//   all_gather               reduce_scatter, or own rows         gather        scatter
//   reduce_scatter           all_gather                          send          receive
//   all_to_all               all_to_all back                     exchange      exchange back
//
// A result that every rank gets may have a gradient of two kinds. With `partial` (the default) the gradients of the
// ranks differ, and their sum is the gradient: the losses of all ranks are added. With `replicated` every rank has the
// whole gradient: all ranks compute the same loss.
//
// A rank that receives no data from a call (a sender, or any rank but the root of a reduce or gather) gets a token, a
// tensor without elements. `tie` makes this rank's loss depend on the token, so that its backward pass takes part in
// the dual call. All ranks run a backward pass from a loss that depends on these results and tokens; it makes the dual
// calls in the reverse order. A rank without a loss starts from a constant 0. In all_reduce, all_gather,
// reduce_scatter, all_to_all, reduce and gather, x needs a gradient on all ranks or on none; in the other calls it may
// need one on any rank. Integers are passed as constants.
#pragma once

#include <span>

#include "framework/autograd/autograd.h"
#include "parallel/communicator/communicator.h"
#include "parallel/communicator/shard.h"

namespace heddle {

/// The sum of the x of all ranks, which have one shape.
Variable all_reduce(const Variable& x, Communicator& group, Spread gradient = Spread::partial);
/// The rows of all ranks in rank order. x has shard(all rows, size, rank) of them, or rows[rank] if `rows` is given.
Variable all_gather(const Variable& x, Communicator& group, Spread gradient = Spread::partial);
Variable all_gather(const Variable& x, std::span<const std::int64_t> rows, Communicator& group,
                    Spread gradient = Spread::partial);
/// This rank's rows of the sum of all ranks' x, divided in the same way.
Variable reduce_scatter(const Variable& x, Communicator& group);
Variable reduce_scatter(const Variable& x, std::span<const std::int64_t> rows, Communicator& group);
/// Rank 0 receives the first rows[0] rows of x, rank 1 the next rows[1], and so on. The result has the received rows in
/// rank order.
Variable all_to_all(const Variable& x, std::span<const std::int64_t> rows, Communicator& group);

/// The root's x on every rank; x is read on the root only. The gradients of all ranks are summed on the root.
Variable broadcast(const Variable& x, int root, Communicator& group);
/// The sum of all ranks' x on the root, a token elsewhere.
Variable reduce(const Variable& x, int root, Communicator& group);
/// The rows of all ranks in rank order on the root, a token elsewhere.
Variable gather(const Variable& x, int root, Communicator& group);
/// Rank 0 receives the first rows[0] rows of the root's x, and so on; x and `rows` are read on the root only.
Variable scatter(const Variable& x, std::span<const std::int64_t> rows, int root, Communicator& group);

/// Returns a token once the receiver has x.
Variable send(const Variable& x, int to, Communicator& group);
Variable recv(int from, Communicator& group);
/// Sends x to one rank and returns what another rank, or the same one, sends.
Variable exchange(const Variable& x, int to, int from, Communicator& group);

/// The same value, made to depend on the tokens: a backward pass from it also makes the dual calls of theirs.
Variable tie(const Variable& loss, std::span<const Variable> tokens);

}  // namespace heddle

// Collectives as operations of the graph: the backward of each is its dual.
//
//   forward                  backward                            forward       backward
//   all_reduce               all_reduce, or nothing              broadcast     reduce
//   all_gather               reduce_scatter, or own rows         gather        scatter
//   reduce_scatter           all_gather                          send          receive
//   all_to_all               all_to_all back                     exchange      exchange back
//
// What every rank gets replicated may have a gradient of two kinds: `partial`, each rank's differs and the sum counts
// (all ranks' losses are added; the default), or `replicated`, all ranks have the whole one (they compute one loss).
//
// A rank to which a call gives nothing (a sender, all but the root of a reduce or gather) gets a token, a tensor
// without elements: `tie` it to this rank's loss, so that its backward joins the others'. All ranks run a backward pass
// from a loss that these results and tokens lead to, in which calls come in the reverse order. A rank without a loss of
// its own starts from a constant 0. In all_reduce, all_gather, reduce_scatter, all_to_all, reduce and gather x leads to
// a gradient on all ranks or on none; in the others any rank's may. Integers go as constants.
#pragma once

#include <span>

#include "framework/autograd/autograd.h"
#include "parallel/communicator/communicator.h"
#include "parallel/communicator/shard.h"

namespace heddle {

/// The sum over the ranks' x of one shape.
Variable all_reduce(const Variable& x, Communicator& group, Spread gradient = Spread::partial);
/// The ranks' rows, one after the other: x has shard(all rows, size, rank) of them, or rows[rank] of the numbers given.
Variable all_gather(const Variable& x, Communicator& group, Spread gradient = Spread::partial);
Variable all_gather(const Variable& x, std::span<const std::int64_t> rows, Communicator& group,
                    Spread gradient = Spread::partial);
/// This rank's rows of the sum over the ranks' x, numbered in the same way.
Variable reduce_scatter(const Variable& x, Communicator& group);
Variable reduce_scatter(const Variable& x, std::span<const std::int64_t> rows, Communicator& group);
/// The first rows[0] rows of x go to rank 0, and so on; the result's come from rank 0 first.
Variable all_to_all(const Variable& x, std::span<const std::int64_t> rows, Communicator& group);

/// Root's x on every rank; it is read on the root only. The gradient is summed.
Variable broadcast(const Variable& x, int root, Communicator& group);
/// The sum over the ranks' x on the root, a token elsewhere.
Variable reduce(const Variable& x, int root, Communicator& group);
/// The ranks' rows in rank order on the root, a token elsewhere.
Variable gather(const Variable& x, int root, Communicator& group);
/// Of the root's x the first rows[0] rows on rank 0, and so on; both are read on the root only.
Variable scatter(const Variable& x, std::span<const std::int64_t> rows, int root, Communicator& group);

/// A token; returns when the receiver has x.
Variable send(const Variable& x, int to, Communicator& group);
Variable recv(int from, Communicator& group);
/// Sends x to one rank and gives what another, or the same, sends.
Variable exchange(const Variable& x, int to, int from, Communicator& group);

/// The same value; a backward pass from it also passes what the tokens stand for.
Variable tie(const Variable& loss, std::span<const Variable> tokens);

}  // namespace heddle

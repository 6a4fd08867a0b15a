// Passes, each of which adds actions to a schedule; schedule.h names the actions. They are applied in the order
// with_recompute, with_offload (offload.h), with_loss, with_communication.
#pragma once

#include "framework/description/enum_table.h"
#include "parallel/pipeline/schedule.h"

namespace heddle {

/// Activation checkpointing: when the forward of a stage keeps nothing but its inputs and is run again before its
/// backward.
enum class Recompute {
  never,
  always,
  except_last,  // the activations of the last micro-batch are needed at once (torchgpipe)
  sqrt          // no R: the stage keeps the values at the ends of about sqrt(n) segments of its n layers (Chen et al.
                // 2016, "Training deep nets with sublinear memory cost")
};
template <>
inline constexpr auto enum_names<Recompute> = enum_table<Recompute>({
    {Recompute::never, "never"},
    {Recompute::always, "always"},
    {Recompute::except_last, "except_last"},
    {Recompute::sqrt, "sqrt"},
});

/// Whether a stage keeps activations from the forward to the backward of every micro-batch, which can be offloaded.
inline bool keeps_activations(Recompute mode) {
  return mode == Recompute::never || mode == Recompute::sqrt;
}

/// Adds an R before each B or I of a micro-batch that is recomputed, directly before it, or before the
/// overlapped pair that contains it.
Schedule with_recompute(Schedule schedule, Recompute mode);

/// Where the loss is computed, and in how many exchanges.
enum class LossForm {
  on_last_stage,     // H follows each of the last stage's F, on its rank alone
  on_all,            // H is a collective of all ranks: between the last forward and the first backward if every rank
                     // has such a point; else so that no rank needs what another one computes between the same two H,
                     // or as soon as the last stage's F has ended everywhere, whichever takes less time if F, I and W
                     // take one unit each, B two and H none
  in_two_exchanges,  // J, S and T on all ranks in place of H. Each of them sends messages, and no rank waits for
                     // another one before the next of them. S and T stand where a rank is free as soon as their input
                     // is there, if F, I and W take one unit each, B two and S a half
  in_one_exchange    // the same, but the last stage's backward needs the S of all ranks and not their T
};
/// Adds H, or J, S and T, of every micro-batch.
Schedule with_loss(Schedule schedule, LossForm form);

/// When a receive is posted. The action that needs the message waits for it, so that an early receive may come before
/// an action on which the message depends. A send is posted right after the action that computes the message, and the
/// schedule does not wait for it.
enum class Receives {
  at_use,  // just before the action that needs it
  early    // one computing action earlier, so that the message arrives meanwhile
};
template <>
inline constexpr auto enum_names<Receives> = enum_table<Receives>({
    {Receives::at_use, "at_use"},
    {Receives::early, "early"},
});

/// Adds sends and receives between stages on different ranks. The receives from one rank are in the order of its sends,
/// so that messages between two ranks need no tags. Overlapped actions stay side by side: their receives come before
/// them, their sends after them.
Schedule with_communication(Schedule schedule, Receives receives = Receives::at_use);

}  // namespace heddle

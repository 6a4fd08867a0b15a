// Passes: from a schedule to one that says more. Order: with_recompute, with_loss, with_communication.
#pragma once

#include "framework/description/enum_table.h"
#include "parallel/pipeline/schedule.h"

namespace heddle {

/// When a stage's forward keeps nothing but its inputs, and is run again before backward.
enum class Recompute {
  never,
  always,
  except_last,  // the last micro-batch's activations are needed at once (torchgpipe)
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

/// An R before each B or I of a micro-batch that is recomputed; as late as can be, which is before an overlapped pair.
Schedule with_recompute(Schedule schedule, Recompute mode);

/// Who computes the loss.
enum class LossRanks {
  last_stage,  // H follows the last stage's F, on its rank alone
  all          // H is a collective of all ranks: between the last forward and the first backward where every rank has
               // such a point, else as soon as the last stage's F has ended everywhere
};
Schedule with_loss(Schedule schedule, LossRanks ranks);

/// Where a receive is posted; the action that needs it waits for it, so that an early one may stand before an action of
/// which it is a consequence. Sends are posted right after what they send was made, and never waited for.
enum class Receives {
  at_use,  // just before the action that needs it
  early    // one computing action earlier, so that it is on its way meanwhile
};
template <>
inline constexpr auto enum_names<Receives> = enum_table<Receives>({
    {Receives::at_use, "at_use"},
    {Receives::early, "early"},
});

/// Sends and receives between stages on different ranks. Two ranks' receives stand in the order of the sends, so that
/// messages of one pair need no names. Overlapped actions stay side by side: their receives stand before, their sends
/// after them.
Schedule with_communication(Schedule schedule, Receives receives = Receives::at_use);

}  // namespace heddle

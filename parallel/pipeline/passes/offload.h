// The pass that offloads activations (Wan et al. 2025, "PipeOffload: Improving Scalability of Pipeline Parallelism with
// Memory Optimization"): O takes what a micro-batch's backward needs out of a rank's memory after its F, and L brings
// it back in time, over a link that is otherwise idle. The link keeps up where it moves a micro-batch out and back in
// the time that the rank computes one, F + B.
#pragma once

#include "framework/description/enum_table.h"
#include "parallel/pipeline/schedule.h"

namespace heddle {

/// Which micro-batches of which stages are offloaded.
enum class Offload {
  never,
  half,  // of a rank's stages, the half whose activations wait longest; of one stage, every second micro-batch
  all
};
template <>
inline constexpr auto enum_names<Offload> = enum_table<Offload>({
    {Offload::never, "never"},
    {Offload::half, "half"},
    {Offload::all, "all"},
});

/// Adds an O right after each chosen F, and its L before the backward that precedes its own on the rank, or so much
/// earlier that the rank computes for two units meanwhile, if F, I and W take one; the first backward's L stands one
/// action before it. In steady state an O or L thus has the time of a whole forward and backward. A
/// micro-batch between whose O and L the rank would compute nothing stays. InputError for a schedule without backward,
/// with recomputation, which keeps nothing to offload, or with O and L of its own.
Schedule with_offload(Schedule schedule, Offload mode);

}  // namespace heddle

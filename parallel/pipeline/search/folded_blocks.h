// The building blocks of Qi et al. 2024 ("Pipeline parallelism with controllable memory", arXiv 2405.15362) for two
// stages per rank whose stages are folded (`folded_stages`). A block says when the actions of one micro-batch are
// executed. Time is counted in slots, as if each action took one.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

namespace heddle {

/// What a rank executes in a slot: an F, I or W of its first stage (0) or of its second one (1).
enum class BlockSlot : char { f0, f1, i1, i0, w1, w0, idle };
inline constexpr std::size_t slot_kinds = 6;
/// The number of slots after which the next micro-batch follows: six actions per rank.
inline constexpr int block_period = 6;

constexpr std::size_t index_of(BlockSlot slot) {
  return static_cast<std::size_t>(slot);
}

/// For each rank, when it executes each of the first micro-batch's actions.
using FoldedBlock = std::vector<std::array<int, slot_kinds>>;

/// Up to this number of ranks, `folded_blocks` gives all published blocks.
inline constexpr int max_ranks_of_all_blocks = 16;

/// The blocks in which F and I move from rank to rank at constant speeds: up the ranks one slot per rank; down the
/// ranks there are two speeds, one after the other. In none of them would a rank have to execute two actions at once
/// when the micro-batches follow each other. Up to max_ranks_of_all_blocks there are about 60 per rank;
/// with more ranks, the speed changes at a few of them only, so that there are about 1,000 blocks.
std::vector<FoldedBlock> folded_blocks(int ranks);

}  // namespace heddle

#include "parallel/pipeline/search/folded_blocks.h"

#include <algorithm>
#include <utility>

#include "parallel/pipeline/schedule.h"

namespace heddle {

namespace {

/// In slots. Down the ranks, the first `changes_at` ranks have the first speed.
struct Speeds {
  int first_step = 1;
  int second_step = 1;
  int changes_at = 0;
  // On the last rank, from the F of its first stage to that of its second one.
  int forward_turn = 1;
  // From the last stage's F to its I, on rank 0.
  int loss_turn = 1;
  // On the last rank, from the I of its second stage to that of its first one.
  int backward_turn = 1;
};

/// The times of F and I.
FoldedBlock passes_of(const Speeds& speeds, int ranks) {
  FoldedBlock block(at_index(ranks));
  const auto at = [&](int rank, BlockSlot slot) -> int& { return block[at_index(rank)][index_of(slot)]; };
  const int last = ranks - 1;
  const auto go_down = [&](BlockSlot slot) {
    for (int rank = 0; rank < last; ++rank)
      at(rank + 1, slot) = at(rank, slot) + (rank < speeds.changes_at ? speeds.first_step : speeds.second_step);
  };
  const auto go_up = [&](BlockSlot slot) {
    for (int rank = last; rank > 0; --rank) at(rank - 1, slot) = at(rank, slot) + 1;
  };
  go_down(BlockSlot::f0);
  at(last, BlockSlot::f1) = at(last, BlockSlot::f0) + speeds.forward_turn;
  go_up(BlockSlot::f1);
  at(0, BlockSlot::i1) = at(0, BlockSlot::f1) + speeds.loss_turn;
  go_down(BlockSlot::i1);
  at(last, BlockSlot::i0) = at(last, BlockSlot::i1) + speeds.backward_turn;
  go_up(BlockSlot::i0);
  return block;
}

/// Puts each W into the first slot after its I that is free in every period. False if F and I collide.
bool add_weights(FoldedBlock& block) {
  for (auto& times : block) {
    std::array<bool, block_period> is_taken{};
    const auto take = [&](int time) { return !std::exchange(is_taken.at(at_index(time % block_period)), true); };
    for (const BlockSlot slot : {BlockSlot::f0, BlockSlot::f1, BlockSlot::i1, BlockSlot::i0})
      if (!take(times.at(index_of(slot)))) return false;
    for (const auto& [weight, input] :
         {std::pair(BlockSlot::w1, BlockSlot::i1), std::pair(BlockSlot::w0, BlockSlot::i0)}) {
      int time = times.at(index_of(input)) + 1;
      while (!take(time)) ++time;
      times.at(index_of(weight)) = time;
    }
  }
  return true;
}

}  // namespace

std::vector<FoldedBlock> folded_blocks(int ranks) {
  constexpr int max_step = 5;
  // The number of ranks where the speed may change: neither the first nor the last.
  const int changes = std::max(std::min(ranks, max_ranks_of_all_blocks) - 2, 0);
  std::vector<FoldedBlock> blocks;
  const auto try_speeds = [&](const Speeds& speeds) {
    if (FoldedBlock block = passes_of(speeds, ranks); add_weights(block)) blocks.push_back(std::move(block));
  };
  for (int turns = 0; turns < block_period * block_period * block_period; ++turns)
    for (int first_step = 1; first_step <= max_step; ++first_step) {
      Speeds speeds{.first_step = first_step,
                    .second_step = first_step,
                    .changes_at = 0,
                    .forward_turn = 1 + turns % block_period,
                    .loss_turn = 1 + turns / block_period % block_period,
                    .backward_turn = 1 + turns / (block_period * block_period)};
      try_speeds(speeds);
      for (speeds.second_step = 1; speeds.second_step < first_step; ++speeds.second_step)
        for (int i = 0; i < changes; ++i) {
          speeds.changes_at = 1 + i * (ranks - 2) / changes;
          try_speeds(speeds);
        }
    }
  return blocks;
}

}  // namespace heddle

#include "parallel/pipeline/search/folded_schedules.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace heddle {

namespace {

/// A rank's slots, from the first.
using Row = std::vector<BlockSlot>;
using Counts = std::array<int, slot_kinds>;

constexpr bool is_forward(BlockSlot slot) {
  return slot == BlockSlot::f0 || slot == BlockSlot::f1;
}
constexpr bool is_weight(BlockSlot slot) {
  return slot == BlockSlot::w0 || slot == BlockSlot::w1;
}

/// By how much it changes the number of micro-batches whose activations a rank holds, counted for each stage.
constexpr int change_of_held(BlockSlot slot) {
  return is_forward(slot) ? 1 : is_weight(slot) ? -1 : 0;
}

int peak_of(const std::vector<Row>& rows) {
  int peak = 0;
  for (const Row& row : rows) {
    int held = 0;
    for (const BlockSlot slot : row) peak = std::max(peak, held += change_of_held(slot));
  }
  return peak;
}

/// The slots of each rank's actions of each micro-batch; `unknown` at first.
class SlotTable {
 public:
  static constexpr std::size_t unknown = static_cast<std::size_t>(-1);

  SlotTable(int ranks, int micro_batches)
      : ranks_(ranks),
        micro_batches_(micro_batches),
        slots_(slot_kinds * at_index(ranks) * at_index(micro_batches), unknown) {}

  std::size_t& at(BlockSlot kind, int rank, int micro_batch) {
    return slots_[(index_of(kind) * at_index(ranks_) + at_index(rank)) * at_index(micro_batches_) +
                  at_index(micro_batch)];
  }

  /// The first slot after the action whose result this one needs: 0 if it needs none, `unknown` if that is unknown.
  std::size_t ready(BlockSlot kind, int rank, int micro_batch) {
    const auto after = [&](BlockSlot input, int from) {
      const std::size_t slot = at(input, from, micro_batch);
      return slot == unknown ? unknown : slot + 1;
    };
    switch (kind) {
      case BlockSlot::f0:
        return rank > 0 ? after(BlockSlot::f0, rank - 1) : 0;
      case BlockSlot::f1:
        return rank + 1 < ranks_ ? after(BlockSlot::f1, rank + 1) : after(BlockSlot::f0, rank);
      case BlockSlot::i1:
        return rank > 0 ? after(BlockSlot::i1, rank - 1) : after(BlockSlot::f1, rank);
      case BlockSlot::i0:
        return rank + 1 < ranks_ ? after(BlockSlot::i0, rank + 1) : after(BlockSlot::i1, rank);
      case BlockSlot::w1:
        return after(BlockSlot::i1, rank);
      case BlockSlot::w0:
        return after(BlockSlot::i0, rank);
      case BlockSlot::idle:
        break;
    }
    return 0;
  }

 private:
  int ranks_;
  int micro_batches_;
  std::vector<std::size_t> slots_;
};

std::vector<Row> repeated(const FoldedBlock& block, int micro_batches) {
  std::vector<Row> rows;
  for (const auto& times : block) {
    const int last = *std::max_element(times.begin(), times.end()) + block_period * (micro_batches - 1);
    Row& row = rows.emplace_back(at_index(last + 1), BlockSlot::idle);
    for (std::size_t kind = 0; kind < slot_kinds; ++kind)
      for (int i = 0; i < micro_batches; ++i) row[at_index(times.at(kind) + block_period * i)] = BlockSlot(kind);
  }
  return rows;
}

/// Leaves out all micro-batches from number `micro_batches`.
void keep_first(int micro_batches, std::vector<Row>& rows) {
  for (Row& row : rows) {
    Counts seen{};
    for (BlockSlot& slot : row)
      if (slot != BlockSlot::idle && ++seen.at(index_of(slot)) > micro_batches) slot = BlockSlot::idle;
  }
}

/// Moves each action to the first slot that the rank's order and its input allow. False if the ranks wait for each
/// other.
bool squeeze(std::vector<Row>& rows, int micro_batches) {
  const int ranks = static_cast<int>(rows.size());
  SlotTable table(ranks, micro_batches);
  std::vector<Row> squeezed(rows.size());
  std::vector<Counts> done(rows.size());
  std::vector<std::size_t> next(rows.size());
  const auto advance = [&](int rank) {
    const Row& from = rows[at_index(rank)];
    Row& to = squeezed[at_index(rank)];
    std::size_t& i = next[at_index(rank)];
    const std::size_t first = i;
    for (; i < from.size(); ++i) {
      if (from[i] == BlockSlot::idle) continue;
      int& micro_batch = done[at_index(rank)].at(index_of(from[i]));
      const std::size_t ready = table.ready(from[i], rank, micro_batch);
      if (ready == SlotTable::unknown) break;
      to.resize(std::max(to.size(), ready), BlockSlot::idle);
      table.at(from[i], rank, micro_batch++) = to.size();
      to.push_back(from[i]);
    }
    return i > first;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (int rank = 0; rank < ranks; ++rank) moved |= advance(rank);
    for (int rank = ranks - 1; rank >= 0; --rank) moved |= advance(rank);
  }
  for (std::size_t rank = 0; rank < rows.size(); ++rank)
    if (next[rank] < rows[rank].size()) return false;
  rows = std::move(squeezed);
  return true;
}

/// Arranges what the rank executes before its first I of stage 0: as many F as it may hold, first those of its first
/// stage, then both in turn; after that each I, with its W, makes room for another F.
void arrange_beginning(int rank, int peak, std::vector<Row>& rows) {
  Row& row = rows[at_index(rank)];
  const auto end = std::find(row.begin(), row.end(), BlockSlot::i0);
  Counts left{};
  for (auto slot = row.begin(); slot != end; ++slot)
    if (*slot != BlockSlot::idle) ++left.at(index_of(*slot));
  Row beginning;
  const auto take = [&](BlockSlot slot) {
    if (left.at(index_of(slot)) == 0) return false;
    --left.at(index_of(slot));
    beginning.push_back(slot);
    return true;
  };
  int of_second = std::min(rank + 1, peak / 2);
  int of_first = peak - of_second;
  const auto take_first = [&] {
    if (of_first > 0 && take(BlockSlot::f0)) --of_first;
  };
  for (int i = 2 * (static_cast<int>(rows.size()) - 1 - rank); i > 0; --i) take_first();
  for (int i = 0; i <= rank; ++i) {
    take_first();
    if (of_second > 0 && take(BlockSlot::f1)) --of_second;
  }
  for (bool took = true; took;) {
    took = take(BlockSlot::i1);
    took |= take(BlockSlot::w1);
    took |= take(BlockSlot::f1) || take(BlockSlot::f0);
  }
  beginning.insert(beginning.end(), end, row.end());
  row = std::move(beginning);
}

int remove_last(Row& row, BlockSlot kind, int count) {
  int removed = 0;
  for (auto slot = row.rbegin(); slot != row.rend() && removed < count; ++slot)
    if (*slot == kind) {
      *slot = BlockSlot::idle;
      ++removed;
    }
  return removed;
}

/// Removes W's from the end until at least so many of each stage, and `in_all` of both, have been removed.
void remove_last_weights(Row& row, int of_second, int of_first, int in_all) {
  for (auto slot = row.rbegin(); slot != row.rend(); ++slot) {
    if (of_second <= 0 && of_first <= 0 && in_all <= 0) return;
    if (!is_weight(*slot)) continue;
    --(*slot == BlockSlot::w1 ? of_second : of_first);
    --in_all;
    *slot = BlockSlot::idle;
  }
}

/// False if the slot is taken or would be before the first one.
bool put(Row& row, int where, BlockSlot slot) {
  if (where < 0) return false;
  if (at_index(where) >= row.size()) row.resize(at_index(where + 1), BlockSlot::idle);
  return std::exchange(row[at_index(where)], slot) == BlockSlot::idle;
}

/// Puts the W's that are missing into the idle slots after the last one.
void put_weights_back(Row& row) {
  const auto first = static_cast<std::size_t>(std::find_if(row.rbegin(), row.rend(), is_weight).base() - row.begin());
  int of_second = 0;
  int of_first = 0;
  const auto next_weight = [&] {
    if (of_second > 0) return --of_second, BlockSlot::w1;
    return of_first > 0 ? (--of_first, BlockSlot::w0) : BlockSlot::idle;
  };
  for (std::size_t i = 0; i < row.size(); ++i) {
    of_second += row[i] == BlockSlot::i1 ? 1 : row[i] == BlockSlot::w1 ? -1 : 0;
    of_first += row[i] == BlockSlot::i0 ? 1 : row[i] == BlockSlot::w0 ? -1 : 0;
    if (i >= first && row[i] == BlockSlot::idle) row[i] = next_weight();
  }
  while (of_second + of_first > 0) row.push_back(next_weight());
}

/// Arranges the last I's so that each follows the one it needs at once; W's fill the slots that are left. False if
/// another action is in the way.
bool arrange_end(std::vector<Row>& rows, int micro_batches) {
  const int ranks = static_cast<int>(rows.size());
  const int peak = peak_of(rows);
  const int max_of_first = std::min((peak + 1) / 2, micro_batches);
  const int max_of_second = std::min(peak - max_of_first, micro_batches);
  const Row& row_0 = rows.front();
  const auto last_forward = static_cast<int>(row_0.rend() - std::find(row_0.rbegin(), row_0.rend(), BlockSlot::f1)) - 1;
  for (int rank = 0; rank < ranks; ++rank) {
    Row& row = rows[at_index(rank)];
    const int of_second = remove_last(row, BlockSlot::i1, std::min(rank + 1, max_of_second));
    const int of_first = remove_last(row, BlockSlot::i0, max_of_first);
    remove_last_weights(row, of_second, of_first, peak);
    for (int i = 0; i < of_first; ++i)
      if (!put(row, last_forward - rank + 2 * (ranks - i), BlockSlot::i0)) return false;
    for (int i = 0; i < of_second; ++i)
      if (!put(row, last_forward + 1 + rank - 2 * i, BlockSlot::i1)) return false;
    put_weights_back(row);
  }
  return true;
}

/// Fills idle slots, from the first: with the next action of the rank that is possible there and with which the rank
/// never holds more than `peak`.
class SlotFilling {
 public:
  SlotFilling(std::vector<Row>& rows, int micro_batches)
      : rows_(rows),
        peak_(peak_of(rows)),
        table_(static_cast<int>(rows.size()), micro_batches),
        done_(rows.size()),
        held_(rows.size()) {}

  void run() {
    std::size_t length = 0;
    for (const Row& row : rows_) length = std::max(length, row.size());
    for (Row& row : rows_) row.resize(length, BlockSlot::idle);
    for (std::size_t i = 0; i < length; ++i)
      for (int rank = 0; rank < static_cast<int>(rows_.size()); ++rank) {
        BlockSlot& slot = rows_[at_index(rank)][i];
        if (slot == BlockSlot::idle) fill(rank, i);
        if (slot == BlockSlot::idle) continue;
        held_[at_index(rank)] += change_of_held(slot);
        table_.at(slot, rank, done_[at_index(rank)].at(index_of(slot))++) = i;
      }
  }

 private:
  void fill(int rank, std::size_t where) {
    Row& row = rows_[at_index(rank)];
    std::array<bool, slot_kinds> is_passed{};
    std::size_t kinds_passed = 0;
    int held = held_[at_index(rank)];
    int peak = held;
    for (std::size_t i = where + 1; i < row.size() && kinds_passed < slot_kinds; ++i) {
      const BlockSlot slot = row[i];
      if (slot == BlockSlot::idle) continue;
      if (!std::exchange(is_passed.at(index_of(slot)), true)) {
        ++kinds_passed;
        const bool fits = !is_forward(slot) || peak < peak_;
        // What is done later has no slot in the table yet.
        if (fits && table_.ready(slot, rank, done_[at_index(rank)].at(index_of(slot))) <= where) {
          std::swap(row[where], row[i]);
          return;
        }
      }
      peak = std::max(peak, held += change_of_held(slot));
    }
  }

  std::vector<Row>& rows_;
  int peak_;
  SlotTable table_;
  std::vector<Counts> done_;
  std::vector<int> held_;
};

/// The n-th W of a rank belongs to its n-th I, of whichever stage.
std::vector<Action> actions_of(const Row& row, int rank, int ranks) {
  std::vector<Action> actions;
  std::vector<Action> weights;
  std::size_t next_weight = 0;
  Counts done{};
  for (const BlockSlot slot : row) {
    if (slot == BlockSlot::idle) continue;
    if (is_weight(slot)) {
      actions.push_back(weights.at(next_weight++));
      continue;
    }
    const int stage = slot == BlockSlot::f0 || slot == BlockSlot::i0 ? rank : 2 * ranks - 1 - rank;
    const int micro_batch = done.at(index_of(slot))++;
    actions.push_back({is_forward(slot) ? ActionKind::forward : ActionKind::backward_input, stage, micro_batch});
    if (!is_forward(slot)) weights.push_back({ActionKind::backward_weight, stage, micro_batch});
  }
  return actions;
}

Schedule schedule_of(const std::vector<Row>& rows, int micro_batches) {
  const int ranks = static_cast<int>(rows.size());
  Schedule schedule = empty_schedule(micro_batches, folded_stages(ranks));
  for (int rank = 0; rank < ranks; ++rank)
    schedule.ranks[at_index(rank)] = actions_of(rows[at_index(rank)], rank, ranks);
  return schedule;
}

}  // namespace

std::vector<Schedule> folded_schedules(const FoldedBlock& block, int micro_batches) {
  const int ranks = static_cast<int>(block.size());
  // The beginning is arranged for a full pipeline.
  const int full = std::max(micro_batches, 2 * ranks);
  std::vector<Row> rows = repeated(block, full);
  const int peak = peak_of(rows);
  if (peak > 2 * ranks) return {};
  for (int rank = 0; rank < ranks; ++rank) arrange_beginning(rank, peak, rows);
  keep_first(micro_batches, rows);
  if (!squeeze(rows, micro_batches) || !arrange_end(rows, micro_batches) || !squeeze(rows, micro_batches)) return {};
  std::vector<Schedule> schedules{schedule_of(rows, micro_batches)};
  SlotFilling(rows, micro_batches).run();
  schedules.push_back(schedule_of(rows, micro_batches));
  return schedules;
}

}  // namespace heddle

// Pipeline schedules as data: for each rank the list of what it does, in order. A schedule knows nothing of tensors. It
// is made by a pure function (schedules.h) or read from a file (schedule_csv.h) with its computing only; passes
// (passes.h) add recomputation, the loss, sends and receives. The same lists are validated, drawn, simulated, planned
// and executed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/description/enum_table.h"

namespace heddle {

enum class ActionKind {
  forward,          // F
  backward,         // B: input part and weight part in one
  backward_input,   // I: the gradient of what the stage was given
  backward_weight,  // W: the gradient of the stage's parameters
  recompute,        // R: forward once more, this time keeping what backward needs
  loss,             // H: the head: loss and the gradient of the last stage's output, on one or on all ranks
  send_forward,     // what the stage made, to the next stage
  recv_forward,     // what the stage before made
  send_backward,    // the gradient of what the stage was given, to the stage before
  recv_backward     // the gradient of what the stage made
};
/// As PyTorch's schedule files write them.
template <>
inline constexpr auto enum_names<ActionKind> = enum_table<ActionKind>({
    {ActionKind::forward, "F"},
    {ActionKind::backward, "B"},
    {ActionKind::backward_input, "I"},
    {ActionKind::backward_weight, "W"},
    {ActionKind::recompute, "R"},
    {ActionKind::loss, "H"},
    {ActionKind::send_forward, "SEND_F"},
    {ActionKind::recv_forward, "RECV_F"},
    {ActionKind::send_backward, "SEND_B"},
    {ActionKind::recv_backward, "RECV_B"},
});

constexpr bool is_message(ActionKind kind) {
  return kind >= ActionKind::send_forward;
}
constexpr bool is_send(ActionKind kind) {
  return kind == ActionKind::send_forward || kind == ActionKind::send_backward;
}

struct Action {
  ActionKind kind = ActionKind::forward;
  /// The stage that computes, or that sends or receives.
  int stage = 0;
  int micro_batch = 0;
  /// Computed together with the next action of this rank: the forward of one micro-batch beside the backward of
  /// another. They are still executed in order.
  bool overlaps_next = false;
  bool operator==(const Action&) const = default;
};

/// `2F0`: in stage 2 the forward of micro-batch 0; PyTorch's notation, plus R and H.
std::string to_string(const Action& action);

struct Schedule {
  int micro_batches = 0;
  /// Which rank has stage s: rank_of[s]. Several stages may lie on one rank.
  std::vector<int> rank_of;
  /// Of each rank, in order.
  std::vector<std::vector<Action>> ranks;

  int stages() const { return static_cast<int>(rank_of.size()); }
  int size() const { return static_cast<int>(ranks.size()); }
  bool operator==(const Schedule&) const = default;
};

/// What a file or a command may ask for. A cell's lists and simulation take about 180 bytes.
inline constexpr int most_stages = 65'536;
inline constexpr int most_micro_batches = 1'000'000;
inline constexpr std::int64_t most_cells = std::int64_t{1} << 25;

/// Lists to be filled, one for each rank that has a stage.
Schedule empty_schedule(int micro_batches, std::vector<int> rank_of);

/// Nothing but F and messages.
bool is_forward_only(const Schedule& schedule);

/// Stage s on rank s mod p: a loop over the ranks, v times. One stage a rank: v = 1.
std::vector<int> looped_stages(int ranks, int chunks);
/// Stages down the ranks and up again: stage s < p on rank s, stage s >= p on rank 2p - 1 - s.
std::vector<int> folded_stages(int ranks);

}  // namespace heddle

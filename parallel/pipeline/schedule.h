// Pipeline schedules as data: for each rank the list of its actions, in order. A schedule knows nothing about tensors.
// A pure function (schedules.h) or a file (schedule_csv.h) gives its computing actions; passes (passes/passes.h) add
// recomputation, the loss, sends and receives. The same lists are validated, drawn, simulated, planned and executed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "framework/description/enum_table.h"

namespace heddle {

/// An index of a vector.
constexpr std::size_t at_index(int index) {
  return static_cast<std::size_t>(index);
}

/// In this order: is_loss and is_message test ranges of it.
enum class ActionKind {
  forward,          // F
  backward,         // B: the input part and the weight part together
  backward_input,   // I: the gradient of the stage's input
  backward_weight,  // W: the gradient of the stage's parameters
  recompute,        // R: the forward again, which now keeps what the backward needs
  loss,             // H: the head: the loss and the gradient of the last stage's output, on one rank or on all
  loss_broadcast,   // J: H in three parts, on all ranks: the last stage's output is sent to all of them,
  loss_sums,        // S: each rank adds up its part of the loss; the sums are exchanged,
  loss_gradient,    // T: and, with the sums of all, it computes what is left
  offload,          // O: what the backward needs leaves the rank's memory for the host's
  load,             // L: and comes back
  send_forward,     // the stage's output, to the next stage
  recv_forward,     // the output of the stage before
  send_backward,    // the gradient of the stage's input, to the stage before
  recv_backward     // the gradient of the stage's output
};
/// As PyTorch's schedule files write them, plus R, H, J, S, T, O and L.
template <>
inline constexpr auto enum_names<ActionKind> = enum_table<ActionKind>({
    {ActionKind::forward, "F"},
    {ActionKind::backward, "B"},
    {ActionKind::backward_input, "I"},
    {ActionKind::backward_weight, "W"},
    {ActionKind::recompute, "R"},
    {ActionKind::loss, "H"},
    {ActionKind::loss_broadcast, "J"},
    {ActionKind::loss_sums, "S"},
    {ActionKind::loss_gradient, "T"},
    {ActionKind::offload, "O"},
    {ActionKind::load, "L"},
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

/// Whether it is the loss or a part of it.
constexpr bool is_loss(ActionKind kind) {
  return kind >= ActionKind::loss && kind <= ActionKind::loss_gradient;
}

/// Whether it is a part of the loss: J, S or T.
constexpr bool is_part_of_loss(ActionKind kind) {
  return is_loss(kind) && kind != ActionKind::loss;
}

/// Whether it moves activations between the rank's memory and the host's, while the rank computes.
constexpr bool is_offload_or_load(ActionKind kind) {
  return kind == ActionKind::offload || kind == ActionKind::load;
}

struct Action {
  ActionKind kind = ActionKind::forward;
  /// The stage that computes, or that sends or receives.
  int stage = 0;
  int micro_batch = 0;
  /// Whether it is computed together with the next action of this rank: the forward of one micro-batch beside the
  /// backward of another. The engine still executes them in order.
  bool overlaps_next = false;
  bool operator==(const Action&) const = default;
};

/// `2F0` is the forward of micro-batch 0 in stage 2: PyTorch's notation, plus R, H, J, S, T, O and L.
std::string to_string(const Action& action);

struct Schedule {
  int micro_batches = 0;
  /// rank_of[s] is the rank that has stage s. One rank may have several stages.
  std::vector<int> rank_of;
  /// The actions of each rank, in order.
  std::vector<std::vector<Action>> ranks;
  /// If it is not empty, there are two copies of each stage, whose gradients are added up after the last backward. The
  /// even micro-batches go through those of `rank_of`, the odd ones through these, whose ranks are its mirror image:
  /// second_rank_of[s] = size() - 1 - rank_of[s]. Two ranks that are each other's mirror image thus have the same
  /// stages.
  std::vector<int> second_rank_of{};
  /// Whether the last stage's backward waits for the S of all ranks and not for their T, if there is a loss in parts.
  bool has_loss_in_one_exchange = false;

  int stages() const { return static_cast<int>(rank_of.size()); }
  int copies() const { return second_rank_of.empty() ? 1 : 2; }
  /// The copy, 0 or 1, that a micro-batch goes through.
  int copy_of(int micro_batch) const { return second_rank_of.empty() ? 0 : micro_batch % 2; }
  const std::vector<int>& ranks_of_copy(int copy) const { return copy == 0 ? rank_of : second_rank_of; }
  /// Whether a rank has a copy of a stage.
  bool has_stage(int rank, int stage) const {
    return rank_of[at_index(stage)] == rank || (copies() > 1 && second_rank_of[at_index(stage)] == rank);
  }
  /// The place of a micro-batch's copy of a stage in an array with an element for each stage of each copy.
  std::size_t stage_index(int stage, int micro_batch) const {
    return at_index(copy_of(micro_batch) * stages() + stage);
  }
  /// The rank that has a stage for a micro-batch.
  int rank_at(int stage, int micro_batch) const { return ranks_of_copy(copy_of(micro_batch))[at_index(stage)]; }
  int size() const { return static_cast<int>(ranks.size()); }
  bool operator==(const Schedule&) const = default;
};

/// The largest schedule that a file or a command may ask for. Lists and simulation take about 180 bytes per cell.
inline constexpr int max_stages = 65'536;
inline constexpr int max_micro_batches = 1'000'000;
inline constexpr std::int64_t max_cells = std::int64_t{1} << 25;

/// A schedule with empty lists, one for each rank that has a stage.
Schedule empty_schedule(int micro_batches, std::vector<int> rank_of);

/// The same with two copies of each stage, the second of which is the mirror image of `rank_of`.
Schedule empty_schedule_of_two_copies(int micro_batches, std::vector<int> rank_of);

/// Whether the schedule has only F and messages.
bool is_forward_only(const Schedule& schedule);

/// Whether the schedule has an O or L.
bool has_offload(const Schedule& schedule);

/// Puts stage s on rank s mod `ranks`, in `chunks` loops over the ranks; one chunk is one stage per rank.
std::vector<int> looped_stages(int ranks, int chunks);
/// Puts the stages down the ranks and up again: stage s < `ranks` on rank s, any other on rank 2 * `ranks` - 1 - s.
std::vector<int> folded_stages(int ranks);
/// Puts the stages down the ranks, up again, down again, ..: `chunks` times (Hanayo's waves); two chunks are
/// folded_stages.
std::vector<int> wave_stages(int ranks, int chunks);

}  // namespace heddle

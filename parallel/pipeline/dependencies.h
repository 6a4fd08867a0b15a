// The dependencies of a schedule's actions, and the order in which all lists can be executed.
//
// An F needs the F of the stage before; a B or I needs its own F, the gradient from the stage after and, in the last
// stage, the loss if there is one; a W needs its I; an R or O needs its F; an L needs its O, and a B or I the L if
// there was an O. Overlapped actions begin together: all their inputs must be available before the first one, and their
// results are available after the last one. Sends wait for nothing; a receive is only posted, and the action that needs
// it waits for it. An H of several ranks is a collective. Of a loss in parts, an S needs the J of the rank that has the
// last stage, a T needs the S of all ranks, and the last stage's B or I their T or, in one exchange, their S.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "parallel/pipeline/schedule.h"

namespace heddle {

constexpr bool is_backward(ActionKind kind) {
  return kind == ActionKind::backward || kind == ActionKind::backward_input;
}

/// The actions that passes have added to the computing actions.
struct Additions {
  int loss_rank_count = 0;     // number of ranks that have the H, or the J, S and T, of a micro-batch
  bool loss_in_parts = false;  // J, S and T
  bool messages = false;

  /// The action after which the last stage's B or I has its gradient.
  ActionKind end_of_loss = ActionKind::loss;
};
Additions additions(const Schedule& schedule);

/// The stage to which the result of an action is sent: a neighbour on another rank, if there is one.
std::optional<int> receiver_stage(const Schedule& schedule, const Action& action);

/// The index after the last action that begins together with the one at `first`.
int end_of_overlap(const std::vector<Action>& list, int first);

/// The number of elements from one stage to the next in an array with an element of `bytes` bytes per stage and
/// micro-batch. It makes an odd number of cache lines: with a power of two, the elements of all stages for one
/// micro-batch would fall on a few sets of the cache, and a walk over a thousand ranks would take several times as
/// long.
constexpr std::size_t stage_stride(int micro_batches, std::size_t bytes) {
  constexpr std::size_t line = 64;
  const std::size_t lines = (at_index(micro_batches) * bytes + line - 1) / line;
  return (lines | 1) * line / bytes;
}

/// A value for each stage and micro-batch, whose stages are `stage_stride` apart.
template <class T>
class PerCell {
 public:
  PerCell() = default;
  explicit PerCell(const Schedule& schedule, T value = {})
      : stride_(stage_stride(schedule.micro_batches, sizeof(T))), values_(schedule.rank_of.size() * stride_, value) {}

  decltype(auto) operator()(int stage, int micro_batch) {
    return values_[at_index(stage) * stride_ + at_index(micro_batch)];
  }
  decltype(auto) operator()(int stage, int micro_batch) const {
    return values_[at_index(stage) * stride_ + at_index(micro_batch)];
  }
  decltype(auto) operator()(const Action& action) { return (*this)(action.stage, action.micro_batch); }
  decltype(auto) operator()(const Action& action) const { return (*this)(action.stage, action.micro_batch); }
  bool empty() const { return values_.empty(); }

 private:
  std::size_t stride_ = 0;
  std::vector<T> values_;
};

/// Where a walk over the lists ended.
struct Walk {
  /// For each rank, the number of actions that could be executed.
  std::vector<int> reached;
  /// For each rank that did not reach its end, the action that must come first: the one that computes or sends the
  /// input.
  std::vector<Action> waits_for;

  bool complete(const Schedule& schedule) const;
};

/// Called for a rank's actions [first, end), which begin together, after all that they need.
using Visit = std::function<void(int rank, int first, int end)>;

/// Executes a schedule without tensors as far as possible, in time linear in the number of actions. Stages and
/// micro-batches must be in range.
Walk walk(const Schedule& schedule, const Visit& visit = {});

}  // namespace heddle

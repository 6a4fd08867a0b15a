// Several stages per rank, in loops over the ranks. In the pictures f0 is F0 of a rank's second stage.
#include <algorithm>
#include <string_view>

#include "framework/error.h"
#include "parallel/pipeline/schedules.h"

namespace heddle {
namespace {

/// The micro-batches that go through a rank's first stage before the same go through its next one. p of them if p
/// divides m; else, as in PyTorch, m divided by the whole rounds of p that it has, if that is a whole number.
int micro_batches_per_round(std::string_view name, const ScheduleShape& shape) {
  const int rounds = std::max(1, shape.micro_batches / shape.ranks);
  if (shape.micro_batches % rounds == 0) return shape.micro_batches / rounds;
  fail<InputError>("{}: expected a multiple of {} micro-batches, for {} rounds over {} ranks, got {}", name, rounds,
                   rounds, shape.ranks, shape.micro_batches);
}

/// The k-th F (or backward) of a rank: a round of micro-batches through its first stage (its last), the same through
/// the next, .., then the next round.
Action interleaved_action(const ScheduleShape& shape, int per_round, ActionKind kind, int rank, int k) {
  const int round = k / (per_round * shape.chunks);
  const int chunk = k / per_round % shape.chunks;
  const int ascending = kind == ActionKind::forward ? chunk : shape.chunks - 1 - chunk;
  return {kind, ascending * shape.ranks + rank, round * per_round + k % per_round};
}

/// The number of F that a rank does before its first backward, besides the one of the steady state: `per_rank` more for
/// each rank after it.
int interleaved_warm_up(const ScheduleShape& shape, int per_round, int per_rank, int rank) {
  return std::min(shape.chunks * shape.micro_batches,
                  (shape.chunks - 1) * per_round + per_rank * (shape.ranks - rank - 1));
}

/// I after `ahead` F, W after `waiting` I, one of each in turn.
Schedule interleaved_zero_bubble(const ScheduleShape& shape, int per_round, int per_rank) {
  Schedule schedule = empty_schedule(shape.micro_batches, looped_stages(shape.ranks, shape.chunks));
  const int all = shape.chunks * shape.micro_batches;
  for (int rank = 0; rank < shape.ranks; ++rank) {
    std::vector<Action>& list = schedule.ranks[at_index(rank)];
    const int ahead = interleaved_warm_up(shape, per_round, per_rank, rank);
    const int waiting = rank;
    const auto append = [&](ActionKind kind, int k) {
      if (k >= 0 && k < all) list.push_back(interleaved_action(shape, per_round, kind, rank, k));
    };
    for (int k = 0; k < all + ahead + waiting; ++k) {
      append(ActionKind::forward, k);
      append(ActionKind::backward_input, k - ahead);
      append(ActionKind::backward_weight, k - ahead - waiting);
    }
  }
  return schedule;
}

}  // namespace

void check_interleaved(std::string_view name, const ScheduleShape& shape) {
  (void)micro_batches_per_round(name, shape);
}

/// Narayanan et al. 2021, "Efficient large-scale language model training on GPU clusters using Megatron-LM". Bubble
/// (p-1)(F+B)/v; ((v-1)p + 2(p-r-1) + 1)/v micro-batches are alive on rank r.
///
///   0: F0 F1 f0 f1 F2    b0    F3 b1    f2 B0    f3 B1       b2       b3    B2    B3
///   1:    F0 F1 f0 b0    f1 b1    F2 B0    F3 B1    f2 b2    f3 b3    B2    B3
Schedule interleaved(const ScheduleShape& shape) {
  const int per_round = micro_batches_per_round("interleaved", shape);
  Schedule schedule = empty_schedule(shape.micro_batches, looped_stages(shape.ranks, shape.chunks));
  const int all = shape.chunks * shape.micro_batches;
  for (int rank = 0; rank < shape.ranks; ++rank) {
    std::vector<Action>& list = schedule.ranks[at_index(rank)];
    const int ahead = interleaved_warm_up(shape, per_round, 2, rank);
    for (int k = 0; k < all + ahead; ++k) {
      if (k < all) list.push_back(interleaved_action(shape, per_round, ActionKind::forward, rank, k));
      if (k >= ahead) list.push_back(interleaved_action(shape, per_round, ActionKind::backward, rank, k - ahead));
    }
  }
  return schedule;
}

/// Lamy-Poirier 2023, "Breadth-first pipeline parallelism". Bubble (p-1)(F+B)/v where m >= p; all m micro-batches are
/// alive.
///
///   0: F0 F1 f0 f1             b0    b1    B0    B1
///   1:    F0 F1 f0 f1 b0    b1    B0    B1
Schedule looped_bfs(const ScheduleShape& shape) {
  Schedule schedule = empty_schedule(shape.micro_batches, looped_stages(shape.ranks, shape.chunks));
  for (int rank = 0; rank < shape.ranks; ++rank) {
    std::vector<Action>& list = schedule.ranks[at_index(rank)];
    const auto append_all = [&](ActionKind kind, int chunk) {
      for (int i = 0; i < shape.micro_batches; ++i) list.push_back({kind, chunk * shape.ranks + rank, i});
    };
    for (int chunk = 0; chunk < shape.chunks; ++chunk) append_all(ActionKind::forward, chunk);
    for (int chunk = shape.chunks - 1; chunk >= 0; --chunk) append_all(ActionKind::backward, chunk);
  }
  return schedule;
}

/// PyTorch's ScheduleInterleavedZeroBubble: interleaved 1f1b with the warm-up of zb_h1, whose weight parts move into
/// its gaps. With one stage per rank it has zb_h1's bubble and memory; the inputs of r weight parts of a stage wait on
/// rank r.
///
///   0: F0 F1 f0 f1    i0 w0 F2 i1 w1 F3 I0 W0 f2 I1 W1 f3 i2 w2 i3 w3 I2 W2 I3 W3
///   1:    F0 F1 f0 i0 f1 i1 w0 F2 I0 w1 F3 I1 W0 f2 i2 W1 f3 i3 w2 I2 w3 I3 W2 W3
Schedule interleaved_zb(const ScheduleShape& shape) {
  return interleaved_zero_bubble(shape, micro_batches_per_round("interleaved_zb", shape), 1);
}

/// The same with the warm-up of interleaved 1f1b, and so with its micro-batches alive. Bubble (p-1)(F+I-W)/v; the
/// inputs of r weight parts of a stage wait on rank r.
///
///   0: F0 F1 f0 f1 F2 i0 w0 F3 i1 w1 f2 I0 W0 f3 I1 W1 i2 w2    i3 w3 I2 W2 I3 W3
///   1:    F0 F1 f0 i0 f1 i1 w0 F2 I0 w1 F3 I1 W0 f2 i2 W1 f3 i3 w2 I2 w3 I3 W2 W3
Schedule interleaved_zb_long(const ScheduleShape& shape) {
  return interleaved_zero_bubble(shape, micro_batches_per_round("interleaved_zb_long", shape), 2);
}

}  // namespace heddle

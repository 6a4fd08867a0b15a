#include "parallel/pipeline/schedules.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/ranges.h>

#include "framework/description/nearest.h"
#include "framework/description/text.h"
#include "framework/error.h"
#include "parallel/pipeline/validation.h"

namespace heddle {
namespace {

constexpr std::array shipped{
    ScheduleType{"naive", "one rank computes at a time, micro-batch by micro-batch", naive, 1, 1},
    ScheduleType{"gpipe", "all forward, then all backward (Huang et al. 2019)", gpipe, 1, 1},
    ScheduleType{"1f1b", "one forward, one backward: gpipe's time, less memory (Narayanan et al. 2021)", one_f_one_b, 1,
                 1},
    ScheduleType{"eager_1f1b", "1f1b that hides its messages, with twice the memory (Zhuang et al. 2022)", eager_1f1b,
                 1, 1},
    ScheduleType{"1f1b_plus_1", "1f1b with one more micro-batch, for a head in one exchange (Yeung et al. 2024)",
                 one_f_one_b_plus_1, 1, 1},
    ScheduleType{"1f1b_plus_2", "1f1b with two more micro-batches, for a head in two exchanges (Yeung et al. 2024)",
                 one_f_one_b_plus_2, 1, 1},
    ScheduleType{"interleaved",
                 "1f1b over several stages per rank, with a smaller bubble (Narayanan et al. 2021)",
                 interleaved,
                 1,
                 {},
                 check_interleaved},
    ScheduleType{"looped_bfs", "breadth-first over several stages per rank (Lamy-Poirier 2023)", looped_bfs, 1, {}},
    ScheduleType{"zb_h1", "1f1b with the weight parts in its bubble, with the same memory (Qi et al. 2023)", zb_h1, 1,
                 1},
    ScheduleType{"zb_h2", "no bubble if F = I = W, with twice the memory (Qi et al. 2023)", zb_h2, 1, 1, check_zb_h2},
    ScheduleType{"zb_v", "no bubble if F = I = W, with 1f1b's memory on all ranks (Qi et al. 2024)", zb_v, 2, 2},
    ScheduleType{"v_half", "half of 1f1b's memory, on all ranks (Qi et al. 2024)", v_half, 2, 2},
    ScheduleType{"v_min", "a third of 1f1b's memory, on all ranks (Qi et al. 2024)", v_min, 2, 2},
    ScheduleType{"interleaved_zb",
                 "interleaved 1f1b with the weight parts in its gaps (PyTorch)",
                 interleaved_zb,
                 1,
                 {},
                 check_interleaved},
    ScheduleType{"interleaved_zb_long",
                 "interleaved_zb with interleaved's warm-up: a smaller bubble, more memory",
                 interleaved_zb_long,
                 1,
                 {},
                 check_interleaved},
    ScheduleType{"dualpipe_v", "forward of one direction beside backward of the other (DeepSeek-V3)", dualpipe_v, 2, 2,
                 check_dualpipe_v},
    ScheduleType{"hanayo",
                 "waves down the ranks and up again, with 1f1b's memory on all ranks (Liu et al. 2023)",
                 hanayo,
                 2,
                 {},
                 check_hanayo},
    ScheduleType{"chimera", "1f1b in both directions, with two copies of each stage (Li and Hoefler 2021)", chimera, 1,
                 1, check_two_copies, 2},
    ScheduleType{"dualpipe", "dualpipe_v uncut: two copies of each stage, one per direction (DeepSeek-V3)", dualpipe, 1,
                 1, check_dualpipe, 2}};

/// The shipped schedules, and those of extensions.
std::vector<ScheduleType>& schedule_table() {
  static std::vector<ScheduleType> table(shipped.begin(), shipped.end());
  return table;
}

const ScheduleType& type_named(std::string_view name) {
  std::vector<std::string> names;
  for (const ScheduleType& type : schedule_table()) {
    if (type.name == name) return type;
    names.emplace_back(type.name);
  }
  if (const std::optional<std::string> meant = nearest(name, names))
    fail<InputError>("unknown schedule {}: did you mean {}?", name, *meant);
  fail<InputError>("unknown schedule {}: expected one of {}", name, fmt::join(names, ", "));
}

/// Warm-up, then one forward after each backward. `alive(r)` is the largest number of micro-batches between forward and
/// backward on rank r.
template <class Alive>
Schedule one_forward_after_each_backward(const ScheduleShape& shape, const Alive& alive) {
  Schedule schedule = empty_schedule(shape.micro_batches, looped_stages(shape.ranks, 1));
  for (int rank = 0; rank < shape.ranks; ++rank) {
    std::vector<Action>& list = schedule.ranks[at_index(rank)];
    int forward = 0;
    for (int i = 0; i < shape.micro_batches; ++i) {
      const int end = std::min(shape.micro_batches, i + alive(rank));
      for (; forward < end; ++forward) list.push_back({ActionKind::forward, rank, forward});
      list.push_back({ActionKind::backward, rank, i});
    }
  }
  return schedule;
}

}  // namespace

/// Bubble rate (p-1)/p; one micro-batch is alive.
///
///   0: F0          B0 F1          B1
///   1:    F0    B0       F1    B1
///   2:       F0B0           F1B1
Schedule naive(const ScheduleShape& shape) {
  Schedule schedule = empty_schedule(shape.micro_batches, looped_stages(shape.ranks, 1));
  for (int rank = 0; rank < shape.ranks; ++rank) {
    std::vector<Action>& list = schedule.ranks[at_index(rank)];
    for (int i = 0; i < shape.micro_batches; ++i) {
      list.push_back({ActionKind::forward, rank, i});
      list.push_back({ActionKind::backward, rank, i});
    }
  }
  return schedule;
}

/// Huang et al. 2019, "GPipe: efficient training of giant neural networks using pipeline parallelism". Bubble
/// (p-1)(F+B), rate (p-1)/(m+p-1); all m micro-batches are alive.
///
///   0: F0 F1 F2                   B0 B1 B2
///   1:    F0 F1 F2             B0 B1 B2
///   2:       F0 F1 F2 B0 B1 B2
Schedule gpipe(const ScheduleShape& shape) {
  Schedule schedule = empty_schedule(shape.micro_batches, looped_stages(shape.ranks, 1));
  for (int rank = 0; rank < shape.ranks; ++rank) {
    std::vector<Action>& list = schedule.ranks[at_index(rank)];
    for (int i = 0; i < shape.micro_batches; ++i) list.push_back({ActionKind::forward, rank, i});
    for (int i = 0; i < shape.micro_batches; ++i) list.push_back({ActionKind::backward, rank, i});
  }
  return schedule;
}

/// Narayanan et al. 2019, "PipeDream", and 2021, "Efficient large-scale language model training on GPU clusters using
/// Megatron-LM", with flushes. Bubble (p-1)(F+B) as gpipe's; min(m, p-r) micro-batches are alive on rank r.
///
///   0: F0 F1 F2       B0 F3 B1    B2    B3
///   1:    F0 F1    B0 F2 B1 F3 B2    B3
///   2:       F0 B0 F1 B1 F2 B2 F3 B3
Schedule one_f_one_b(const ScheduleShape& shape) {
  return one_forward_after_each_backward(shape, [&](int rank) { return shape.ranks - rank; });
}

/// Zhuang et al. 2022, "On optimizing the communication of model parallelism" (arXiv 2211.05322): eager-1F1B. Bubble
/// and makespan of 1f1b where messages take no time; min(m, 2(p-r)-1) micro-batches are alive on rank r. Between a
/// result and its use on the next rank stands an action of another micro-batch, beside which the message is sent.
///
///   0: F0 F1 F2 F3 F4 B0 F5 B1    B2    B3 ..
///   1:    F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 ..
///   2:       F0 B0 F1 B1 F2 B2 F3 B3 F4 ..
Schedule eager_1f1b(const ScheduleShape& shape) {
  return one_forward_after_each_backward(shape, [&](int rank) { return 2 * (shape.ranks - rank) - 1; });
}

/// Yeung et al. 2024, "Balancing pipeline parallelism with vocabulary parallelism" (arXiv 2411.05288): 1f1b with as
/// many more micro-batches as a loss on all ranks has exchanges between the last stage's forward and backward, for
/// which the ranks then need not wait: vocab-2 and, below, vocab-1. Their S and T are added by with_loss. Bubble and
/// makespan of 1f1b where the loss takes no time; min(m, p-r+1) micro-batches are alive on rank r.
///
///   0: F0 F1 F2 F3    B0 F4 B1    B2    B3 ..
///   1:    F0 F1 F2 B0 F3 B1 F4 B2    B3 ..
///   2:       F0 F1 B0 F2 B1 F3 B2 F4 B3 ..
Schedule one_f_one_b_plus_1(const ScheduleShape& shape) {
  return one_forward_after_each_backward(shape, [&](int rank) { return shape.ranks - rank + 1; });
}

/// The same for two exchanges: min(m, p-r+2) micro-batches are alive on rank r.
Schedule one_f_one_b_plus_2(const ScheduleShape& shape) {
  return one_forward_after_each_backward(shape, [&](int rank) { return shape.ranks - rank + 2; });
}

std::span<const ScheduleType> schedule_types() {
  return schedule_table();
}

void add_schedules(std::span<const ScheduleType> added) {
  std::vector<ScheduleType>& table = schedule_table();
  for (const ScheduleType& type : added) {
    const auto is_named = [&](const ScheduleType& row) { return row.name == type.name; };
    if (type.name == "csv" || std::any_of(table.begin(), table.end(), is_named))
      fail<InputError>("there is a schedule \"{}\" already", type.name);
    table.push_back(type);
  }
}

int copies_of_stages(std::string_view name) {
  return type_named(name).copies;
}

void check_two_copies(std::string_view name, const ScheduleShape& shape) {
  constexpr const char* why = "each rank has a stage of either direction, and half of the micro-batches go each way";
  if (shape.ranks % 2 != 0)
    fail<InputError>("{}: expected an even number of ranks, got {}: {}", name, shape.ranks, why);
  if (shape.micro_batches % 2 != 0)
    fail<InputError>("{}: expected an even number of micro-batches, got {}: {}", name, shape.micro_batches, why);
}

int default_chunks(const ScheduleType& type) {
  return std::max(type.min_chunks, std::min(2, type.max_chunks.value_or(2)));
}

int default_chunks(std::string_view name) {
  return default_chunks(type_named(name));
}

void check_shape(std::string_view name, const ScheduleShape& shape) {
  const ScheduleType& type = type_named(name);
  const auto [ranks, micro_batches, chunks] = shape;
  if (ranks < 1) fail<InputError>("{}: expected at least 1 rank, got {}", name, ranks);
  if (micro_batches < 1) fail<InputError>("{}: expected at least 1 micro-batch, got {}", name, micro_batches);
  const auto counted_chunks = [](int count) { return counted(count, "chunk", "chunks"); };
  if (type.min_chunks == type.max_chunks && chunks != type.min_chunks) {
    fail<InputError>("{}: expected {}, got {}", name, counted_chunks(type.min_chunks), chunks);
  }
  if (chunks < type.min_chunks) {
    fail<InputError>("{}: expected at least {}, got {}", name, counted_chunks(type.min_chunks), chunks);
  }
  if (type.max_chunks && chunks > *type.max_chunks) {
    fail<InputError>("{}: expected at most {}, got {}", name, counted_chunks(*type.max_chunks), chunks);
  }
  const std::int64_t stages = static_cast<std::int64_t>(ranks) * chunks;
  if (stages > max_stages || micro_batches > max_micro_batches || stages * micro_batches > max_cells) {
    fail<InputError>("{}: {} stages x {} micro-batches: expected at most {} x {}, and {} in all", name, stages,
                     micro_batches, max_stages, max_micro_batches, max_cells);
  }
  if (type.check != nullptr) type.check(name, shape);
}

bool takes_shape(std::string_view name, const ScheduleShape& shape) {
  try {
    check_shape(name, shape);
    return true;
  } catch (const InputError&) {
    return false;
  }
}

Schedule make_schedule(std::string_view name, const ScheduleShape& shape) {
  check_shape(name, shape);
  const ScheduleType& type = type_named(name);
  Schedule schedule = type.make(shape);
  const auto is_type = [&](const ScheduleType& row) { return row.name == type.name; };
  if (std::none_of(shipped.begin(), shipped.end(), is_type)) check(schedule, type.name);
  if (schedule.copies() != type.copies)
    fail<InputError>("{}: expected a schedule with {} of each stage, as its row of the table says, got {}", name,
                     counted(type.copies, "copy", "copies"), schedule.copies());
  return schedule;
}

std::optional<Schedule> make_schedule_if_possible(std::string_view name, const ScheduleShape& shape) {
  try {
    return make_schedule(name, shape);
  } catch (const InputError&) {
    return std::nullopt;
  }
}

}  // namespace heddle

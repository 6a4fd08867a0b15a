// The named schedules and their table. Each is a pure function that gives the computing actions of all ranks (F and B,
// or F, I and W). In every stage the backwards are in the order of the micro-batches 0, 1, .., so that gradients add up
// as in a serial run.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "parallel/pipeline/schedule.h"

namespace heddle {

/// p, m and v in the literature.
struct ScheduleShape {
  int ranks = 1;
  int micro_batches = 1;
  /// Stages per rank.
  int chunks = 1;
};

// schedules.cpp, and schedules/ for each family, give the source, the formula and a picture beside each function.
Schedule naive(const ScheduleShape& shape);               // one micro-batch after another: no two ranks compute at once
Schedule gpipe(const ScheduleShape& shape);               // Huang et al. 2019
Schedule one_f_one_b(const ScheduleShape& shape);         // `1f1b`: Narayanan et al. 2019, 2021 (with flushes)
Schedule eager_1f1b(const ScheduleShape& shape);          // Zhuang et al. 2022: a longer warm-up hides messages
Schedule one_f_one_b_plus_1(const ScheduleShape& shape);  // Yeung et al. 2024: 1f1b for a loss in one exchange,
Schedule one_f_one_b_plus_2(const ScheduleShape& shape);  // or in two
Schedule interleaved(const ScheduleShape& shape);         // Narayanan et al. 2021: interleaved 1f1b
Schedule looped_bfs(const ScheduleShape& shape);          // Lamy-Poirier 2023: breadth-first
Schedule zb_h1(const ScheduleShape& shape);               // Qi et al. 2023, zero bubble
Schedule zb_h2(const ScheduleShape& shape);               // m >= 2p - 1
Schedule zb_v(const ScheduleShape& shape);                // Qi et al. 2024, controllable memory: V-shaped
Schedule v_half(const ScheduleShape& shape);              // the same: half of 1f1b's activations
Schedule v_min(const ScheduleShape& shape);               // the same: a third of them
Schedule interleaved_zb(const ScheduleShape& shape);      // PyTorch: interleaved 1f1b, weight parts in its gaps
Schedule interleaved_zb_long(const ScheduleShape& shape);  // the same with interleaved 1f1b's warm-up
Schedule dualpipe_v(const ScheduleShape& shape);           // DeepSeek-V3's DualPipe cut in half
Schedule hanayo(const ScheduleShape& shape);               // Liu et al. 2023: waves
// Two copies of each stage. m is even, and so is p.
Schedule chimera(const ScheduleShape& shape);   // Li and Hoefler 2021: bidirectional
Schedule dualpipe(const ScheduleShape& shape);  // DeepSeek-V3, m >= 2p

// InputError for ranks, micro-batches or chunks that these schedules do not take; `name` is that of one of them.
void check_interleaved(std::string_view name, const ScheduleShape& shape);  // also both interleaved_zb
void check_zb_h2(std::string_view name, const ScheduleShape& shape);
void check_dualpipe_v(std::string_view name, const ScheduleShape& shape);
void check_hanayo(std::string_view name, const ScheduleShape& shape);
void check_two_copies(std::string_view name, const ScheduleShape& shape);  // ranks and micro-batches are even
void check_dualpipe(std::string_view name, const ScheduleShape& shape);

struct ScheduleType {
  std::string_view name;         // as in an experiment: `1f1b`
  std::string_view description;  // one line for `heddle list schedules`
  Schedule (*make)(const ScheduleShape&);
  /// The least and the largest number of chunks that it takes; if empty, there is no largest.
  int min_chunks = 1;
  std::optional<int> max_chunks = 1;
  /// InputError for other shapes that `make` does not take; null if there are none.
  void (*check)(std::string_view name, const ScheduleShape&) = nullptr;
  /// The number of copies of each stage, 1 or 2.
  int copies = 1;
};
/// All named schedules, in the order in which `heddle list schedules` prints them. A new one is a function and a row.
std::span<const ScheduleType> schedule_types();
/// Adds those of an extension of the program, whose schedules `make_schedule` validates. Must be called before there
/// are several threads. InputError for a name that a schedule has.
void add_schedules(std::span<const ScheduleType> added);

/// The number of copies of each stage. InputError for an unknown name, as `default_chunks`.
int copies_of_stages(std::string_view name);

/// The default number of chunks: two or, if the schedule does not take two, the number nearest to it that it takes.
int default_chunks(const ScheduleType& type);
/// InputError for an unknown name, which suggests the nearest one.
int default_chunks(std::string_view name);

/// The largest number of chunks that searches try. More of them seldom save time and cost messages.
inline constexpr int default_max_chunks = 4;

/// InputError for an unknown name, which suggests the nearest one; for chunks that the schedule does not take; for
/// fewer micro-batches than it needs; for micro-batches that its chunks do not divide.
void check_shape(std::string_view name, const ScheduleShape& shape);
/// Whether `check_shape` finds no error.
bool takes_shape(std::string_view name, const ScheduleShape& shape);
/// The errors of `check_shape`, and those of an extension's schedule.
Schedule make_schedule(std::string_view name, const ScheduleShape& shape);
/// Empty where `make_schedule` finds an error.
std::optional<Schedule> make_schedule_if_possible(std::string_view name, const ScheduleShape& shape);

}  // namespace heddle

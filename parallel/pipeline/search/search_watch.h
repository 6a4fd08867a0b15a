// What a search for schedules has tried so far, and whether it ends early.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <utility>

namespace heddle {

struct ScheduleSearchProgress {
  std::int64_t named = 0;       // named schedules, each in one shape
  std::int64_t placements = 0;  // placements of stages, each with one number of micro-batches
  // The schedules made for these.
  std::int64_t list_schedules = 0;
  std::int64_t blocks = 0;
  std::int64_t reorderings = 0;
  /// The smallest makespan of a schedule that fits, of those that have been compared, and the lower bound. Infinity
  /// until there is one.
  double best = std::numeric_limits<double>::infinity();
  double bound = std::numeric_limits<double>::infinity();

  std::int64_t schedules() const { return named + list_schedules + blocks + reorderings; }
};

struct ScheduleSearchOptions {
  /// Called before each schedule that is tried, thousands of times per second.
  std::function<void(const ScheduleSearchProgress&)> on_progress = [](const ScheduleSearchProgress&) {};
  /// Whether to end with the best that has been found; asked as often.
  std::function<bool()> is_interrupted = [] { return false; };
};

class SearchWatch {
 public:
  explicit SearchWatch(ScheduleSearchOptions options) : options_(std::move(options)) {}

  ScheduleSearchProgress tried;

  /// Reports the progress, and returns whether the search ends here; from then on it stays so.
  bool poll() {
    if (has_ended_) return true;
    options_.on_progress(tried);
    has_ended_ = options_.is_interrupted();
    return has_ended_;
  }
  bool has_ended() const { return has_ended_; }

 private:
  ScheduleSearchOptions options_;
  bool has_ended_ = false;
};

}  // namespace heddle

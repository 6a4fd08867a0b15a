// What a search for schedules has tried so far, and whether it goes on.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <utility>

namespace heddle {

struct SearchTried {
  std::int64_t named = 0;       // named schedules, each in one shape
  std::int64_t placements = 0;  // placements of stages with a number of micro-batches, of which the following are
  std::int64_t list_schedules = 0;
  std::int64_t blocks = 0;
  std::int64_t reorderings = 0;
  /// The smallest makespan of a schedule that fits, of those that have been compared, and the lower bound. Infinity
  /// until there is one.
  double best = std::numeric_limits<double>::infinity();
  double bound = std::numeric_limits<double>::infinity();

  std::int64_t schedules() const { return named + list_schedules + blocks + reorderings; }
};

/// Called before each schedule that is tried, thousands of times per second. False ends the search.
using SearchGoesOn = std::function<bool(const SearchTried& tried)>;

class SearchWatch {
 public:
  explicit SearchWatch(SearchGoesOn goes_on) : goes_on_(std::move(goes_on)) {}

  SearchTried tried;

  /// Whether the search ends here; from then on it stays so.
  bool ends() {
    is_ended_ = is_ended_ || (goes_on_ && !goes_on_(tried));
    return is_ended_;
  }
  bool is_ended() const { return is_ended_; }

 private:
  SearchGoesOn goes_on_;
  bool is_ended_ = false;
};

}  // namespace heddle

// What `heddle schedule --search` says of the schedules that it weighed.
#pragma once

#include <span>
#include <string>

#include "experiments/program/schedule/report.h"
#include "parallel/pipeline/schedule_search.h"

namespace heddle {

/// InputError that names the one that needs the least memory.
void check_that_one_fits(std::span<const WeighedSchedule> weighed, const SearchSpace& space);

/// The best twelve, and by how much the best of our own beats every named one that fits, or does not.
std::string search_table(std::span<const WeighedSchedule> weighed, const SearchSpace& space);

/// schedule_json of the best, with all that was weighed under `weighed`.
std::string search_json(std::span<const WeighedSchedule> weighed, const ScheduleReport& best);

}  // namespace heddle

// The output of `heddle schedule --search` about the schedules that it compared.
#pragma once

#include <span>
#include <string>

#include "experiments/program/schedule/report.h"
#include "parallel/pipeline/search/schedule_search.h"

namespace heddle {

/// InputError that names the one that needs the least memory.
void check_that_one_fits(std::span<const WeighedSchedule> weighed, const SearchSpace& space);

/// The best twelve, and whether the best searched schedule beats every named one that fits, and by how much.
std::string search_table(std::span<const WeighedSchedule> weighed, const SearchSpace& space);

/// schedule_json of the best, with all schedules that were compared under `weighed`.
std::string search_json(std::span<const WeighedSchedule> weighed, const ScheduleReport& best);

}  // namespace heddle

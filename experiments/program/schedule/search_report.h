// The output of `heddle schedule --search` about the schedules that it compared.
#pragma once

#include <string>

#include "experiments/program/schedule/report.h"
#include "parallel/pipeline/search/schedule_search.h"

namespace heddle {

/// InputError that names the one that needs the least memory.
void check_that_one_fits(const ScheduleSearchResult& result, const ScheduleSearchSpace& space);

/// The best twelve with their gaps to the bound, the bound, and whether the best searched schedule beats every named
/// one that fits, and by how much; then what has been tried.
std::string search_table(const ScheduleSearchResult& result, const ScheduleSearchSpace& space);

/// What has been tried so far, for a line that shows the progress.
std::string search_progress(const ScheduleSearchProgress& tried);

/// schedule_json of the best, with the bound, what has been tried, whether the search was interrupted, and all
/// schedules that were compared, under the key `weighed`.
std::string search_json(const ScheduleSearchResult& result, const ScheduleReport& best);

}  // namespace heddle

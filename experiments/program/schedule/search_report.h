// The output of `heddle schedule --search` about the schedules that it compared.
#pragma once

#include <string>

#include "experiments/program/schedule/report.h"
#include "parallel/pipeline/search/schedule_search.h"

namespace heddle {

/// InputError that names the one that needs the least memory.
void check_that_one_fits(const SearchResult& result, const SearchSpace& space);

/// The best twelve with their gaps to the bound, the bound, and whether the best searched schedule beats every named
/// one that fits, and by how much.
std::string search_table(const SearchResult& result, const SearchSpace& space);

/// schedule_json of the best, with the bound, and with all schedules that were compared under `weighed`.
std::string search_json(const SearchResult& result, const ScheduleReport& best);

}  // namespace heddle

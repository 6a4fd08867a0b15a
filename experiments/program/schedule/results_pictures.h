// Pictures of the pipeline schedules of a results folder, for its notebook.
#pragma once

#include <filesystem>

namespace heddle {

/// Draws each schedule of the folder's variants once, simulated at equal costs of F, I and W, as
/// figures/schedule-1.svg, schedule-2.svg, .., in place of those of an earlier call. At most 12. A folder without a
/// summary is left to others to report. InputError if a schedule.csv is damaged.
void draw_schedules_of(const std::filesystem::path& results);

}  // namespace heddle

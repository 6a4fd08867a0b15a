// The page of `heddle schedule --html`, on which a reader chooses a schedule, its shape and its costs. It has the lists
// of all named schedules, and simulates them by a script (notebooks_export/pages/simulate.js).
#pragma once

#include <string>

#include "parallel/pipeline/schedule.h"

namespace heddle {

/// The largest shapes on the page.
struct PlaygroundLimits {
  int ranks = 8;
  int micro_batches = 32;
  int chunks = 4;
};

/// A schedule of F, B, I and W, with at most ten ranks and four chunks, as `01|F2(FB)4|..`: the rank of each stage,
/// then the list of each rank. F, B, I and W are those of a rank's first chunk, FBIW shifted to fbiw, GCJX and gcjx
/// those of the next ones; & precedes an action that overlaps the next one, and a number follows what is repeated.
/// Micro-batches are not written: within a stage, each kind of action takes them in order, and a W takes the first one
/// that has had its I. InputError if they are in another order, and for what has no letter or digit.
std::string schedule_text(const Schedule& schedule);

/// The lists of all named schedules in all shapes as JSON; a text that begins with ! says why there is none. Schedules
/// that need more chunks than the limit are left out.
std::string playground_data(const PlaygroundLimits& limits);

/// The page, one file that needs no network.
std::string playground_html();

}  // namespace heddle

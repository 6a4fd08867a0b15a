// `heddle plan FILE --search`: finds the fastest layout of each variant, prints it, and writes it as an experiment.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "experiments/program/console.h"
#include "experiments/program/study_checks.h"

namespace heddle {

struct LayoutSearchCommand {
  std::optional<std::int64_t> budget{};  // bytes of each rank; absent: each variant's memory_budget
  std::optional<std::int64_t> ranks{};   // absent: as many as each variant's mesh has
  std::vector<std::string> allowed{};    // names of AllowedChange
  std::filesystem::path out{};           // the experiment that is written; empty: NAME_searched.json
  std::filesystem::path svg{};           // a picture of the layouts; empty: none
  bool replaces = false;                 // whether these may replace files
  bool json = false;
};

/// Returns the exit code: 0; 3 if nothing fits for one of the variants, which is then left out; 128 + n after the
/// signal n, which ends the search with the best so far. InputError if no mesh has this number of ranks, a file
/// exists, or several variants would have the same picture; OutOfMemory if nothing fits for any variant.
int search_plan(Study<Experiment> study, const LayoutSearchCommand& command, const Console& console);

}  // namespace heddle

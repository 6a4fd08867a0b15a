// Reads the experiment of a command, and writes the effective one.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "experiments/program/console.h"
#include "experiments/program/study_checks.h"

namespace heddle {

void print_warnings(const Study<Experiment>& study, const Console& console);

/// A study that can be run, whose warnings are printed. InputError otherwise.
Study<Experiment> read_checked_study(const std::filesystem::path& file, const std::vector<std::string>& sets,
                                     const Console& console);

/// The experiment file that gives this study without --set, with every default written out.
std::string effective_json(Study<Experiment>& study);

}  // namespace heddle

// Several runs side by side, as the command prints and writes them.
#pragma once

#include <string>
#include <vector>

#include "experiments/program/commands/compare/compared_run.h"

namespace heddle {

struct Comparison {
  std::vector<ComparedRun> runs;
  std::vector<Difference> differing;
};

/// The figures of the runs, their accuracies, and the keys of their experiments that differ.
std::string comparison_text(const Comparison& comparison);
std::string comparison_json(const Comparison& comparison);
/// One HTML page that loads nothing: the same tables, the curves of the loss, and the memory as bars.
std::string comparison_page(const Comparison& comparison);

/// The tables: headers in the first row; the first column is text.
using TextTable = std::vector<std::vector<std::string>>;
TextTable figures_table(const std::vector<ComparedRun>& runs);
/// Empty if nothing was evaluated.
TextTable accuracies_table(const std::vector<ComparedRun>& runs);

/// The values of a key, each once, with the names of the runs that have it.
std::vector<std::pair<std::string, std::vector<std::string>>> values_of(const Comparison& comparison,
                                                                        const Difference& difference);

}  // namespace heddle

// What a results folder holds before a run writes to it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "experiments/program/study_checks.h"

namespace heddle {

enum class ExistingResults {
  kept,     // none may be there
  resumed,  // the newest checkpoints are resumed; there must be some
  resumed_if_possible,
  replaced
};

/// Ensures that what an earlier run has trained is neither lost nor trained again without the user's knowledge:
/// InputError if the folder holds checkpoints that the run would neither resume nor replace, has none to resume, or
/// holds the results of an experiment with another name.
void check_existing_results(const std::filesystem::path& results, const Study<Experiment>& study, ExistingResults use);

/// The summary of this very study, of which `experiment_json` has every value, if all steps of all variants have been
/// done and saved: then there is nothing to resume.
std::optional<std::string> finished_summary(const std::filesystem::path& results, const Study<Experiment>& study,
                                            const std::string& experiment_json);

}  // namespace heddle

// `heddle reproduce`: runs the shipped experiments and compares their results with the claims of the documents.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "experiments/program/console.h"

namespace heddle {

struct ReproduceCommand {
  std::string name;  // empty: all of them, or their list
  bool all = false;
  bool quick = false;          // cut to seconds; without a name: all of them
  std::filesystem::path data;  // for the experiments that need a data set; empty: these are not run
  std::filesystem::path out = "results/reproduce";
  std::filesystem::path claims = "experiments/claims";
};

/// Runs one command line of this program, without its own name, and gives its exit code.
using CallProgram = std::function<int(const std::vector<std::string>& arguments, const Console& console)>;

/// Prints a table of claims for each experiment; for one experiment what its commands print, too. Without a name, --all
/// and --quick it prints the list of experiments. Returns the exit code: 0 if all claims hold, 1 if one fails.
int reproduce_command(const ReproduceCommand& command, const Console& console, const CallProgram& call);

}  // namespace heddle

// The commands of the command line: their names, options and help.
#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "experiments/program/commands.h"

namespace CLI {
class App;
}

namespace heddle {

/// One call of the program.
struct CommandCall {
  const Console& console;
  /// Joins the job that the environment describes, and returns its processes; null if there is none.
  std::function<Processes*()> join;
  int code = 0;  // the exit code, set by the command
};

/// Adds all commands. When a command line is parsed, its command runs.
void add_commands(CLI::App& app, CommandCall& call);

/// InputError suggests the nearest name if there is no such command.
void check_command_name(std::string_view word);

/// Whether the processes of a job run the command of these arguments together: a run, an evaluation, or the benchmark
/// of collectives. Rank 0's process runs any other command alone.
bool joins_job(std::span<const std::string_view> words);

}  // namespace heddle

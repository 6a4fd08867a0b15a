// The table of the program's commands.
#pragma once

#include <span>
#include <string_view>

#include "experiments/program/commands/command.h"

namespace heddle {

/// Adds all commands. When a command line is parsed, its command runs.
void add_commands(CLI::App& app, CommandCall& call);

/// InputError suggests the nearest name if there is no such command.
void check_command_name(std::string_view word);

/// Whether the processes of a job run the command of these arguments together: a run, an evaluation, or the benchmark
/// of collectives. Rank 0's process runs any other command alone.
bool joins_job(std::span<const std::string_view> words);

}  // namespace heddle

// The table of the program's commands.
#pragma once

#include <span>
#include <string_view>

#include "experiments/program/commands/command.h"

namespace heddle {

/// Adds all commands. When a command line is parsed, its command runs.
void add_commands(CLI::App& app, CommandCall& call);

/// InputError unless the arguments begin with the name of a command, and with the second name that some commands need.
/// Suggests the nearest name. Arguments that begin with options are left to `app`, which has all commands.
void check_command_names(const CLI::App& app, std::span<const std::string_view> words);

/// Whether the processes of a job run the command of these arguments together: a run, an evaluation, or the benchmark
/// of collectives. Rank 0's process runs any other command alone.
bool joins_job(std::span<const std::string_view> words);

}  // namespace heddle

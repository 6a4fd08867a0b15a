// The command line: arguments to a command, errors to an exit code.
#pragma once

#include "experiments/program/console.h"

namespace heddle {

/// The exit code (docs/running.md): 0 done, 1 internal error or a claim that failed, 2 wrong input, 3 out of memory, 4
/// a rank failed, 5 the disk did not take the results, 128 + n ended by the signal n.
int run_command_line(int argc, const char* const* argv, const Console& console);

}  // namespace heddle

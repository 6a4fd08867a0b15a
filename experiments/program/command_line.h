// The command line: arguments to a command, errors to an exit code.
#pragma once

#include "experiments/program/console.h"

namespace heddle {

/// 0 done, 1 internal error, 2 wrong input, 3 out of memory, 4 a rank failed.
int run_command_line(int argc, const char* const* argv, const Console& console);

}  // namespace heddle

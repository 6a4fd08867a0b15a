// Calls the program as a user does: arguments in, text and an exit code out.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "experiments/program/command_line.h"

namespace heddle::test {

struct Called {
  int code = 0;
  std::string out;
  std::string err;
};

/// `output`: what stdout is.
inline Called call(const std::vector<std::string>& arguments, const Terminal& output = {}) {
  std::vector<const char*> argv{"heddle"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  std::ostringstream out;
  std::ostringstream err;
  const int code = run_command_line(static_cast<int>(argv.size()), argv.data(),
                                    {.out = out, .err = err, .terminal = {}, .out_terminal = output});
  return {code, out.str(), err.str()};
}

}  // namespace heddle::test

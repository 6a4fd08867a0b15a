// Calls the program as a user does: arguments in, text and an exit code out.
#pragma once

#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

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

/// The same of a line of arguments, without quotes.
inline Called call_words(const std::string& line, const Terminal& output = {}) {
  std::istringstream words(line);
  return call(std::vector<std::string>{std::istream_iterator<std::string>(words), {}}, output);
}
/// What a line that succeeds prints.
inline std::string printed_by(const std::string& line, const Terminal& output = {}) {
  const Called called = call_words(line, output);
  CHECK(called.err.empty());
  REQUIRE(called.code == 0);
  return called.out;
}
/// The error of a line that is wrong input.
inline std::string refused_by(const std::string& line) {
  const Called called = call_words(line);
  CHECK(called.code == 2);
  CHECK(called.out.empty());
  return called.err;
}

}  // namespace heddle::test

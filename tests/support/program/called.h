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

/// Calls the program with these arguments; `output` is the terminal, if any, at its stdout.
inline Called call(const std::vector<std::string>& arguments, const Terminal& output = {}) {
  std::vector<const char*> argv{"heddle"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  std::ostringstream out;
  std::ostringstream err;
  const int code = run_command_line(static_cast<int>(argv.size()), argv.data(),
                                    {.out = out, .err = err, .terminal = {}, .out_terminal = output});
  return {code, out.str(), err.str()};
}

/// Calls the program with the words of a line, which has no quotes.
inline Called call_words(const std::string& line, const Terminal& output = {}) {
  std::istringstream words(line);
  return call(std::vector<std::string>{std::istream_iterator<std::string>(words), {}}, output);
}
/// What a call prints that succeeds without a message.
inline std::string printed_by(const std::string& line, const Terminal& output = {}) {
  const Called called = call_words(line, output);
  CHECK(called.err.empty());
  REQUIRE(called.code == 0);
  return called.out;
}
/// The error of a call that is refused as wrong input.
inline std::string refused_by(const std::string& line) {
  const Called called = call_words(line);
  CHECK(called.code == 2);
  CHECK(called.out.empty());
  return called.err;
}

}  // namespace heddle::test

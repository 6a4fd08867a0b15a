// Runs the program as a separate process, so that its resident memory can be measured, and finds where it was built.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/support/files/source_folder.h"

namespace heddle::test {

/// The path of the program: where it was built, or HEDDLE_PROGRAM on a machine to which it was copied.
std::string program();

/// A call of the program that has ended.
struct ProgramResult {
  int code = 0;                      // -1: killed
  std::int64_t resident_bytes = 0;   // at most, over the process's life
  std::int64_t inherited_bytes = 0;  // at the start; the measured peak cannot be below it
  nlohmann::json summary;            // what it printed on stdout; discarded if that is no JSON
  std::string err;                   // what it printed on stderr
};

/// Runs the program in `folder`, or in this process's folder if it is empty. The file `out` receives its output, and a
/// file beside it its messages.
ProgramResult run_program(std::vector<std::string> arguments, const std::filesystem::path& out,
                          const std::filesystem::path& folder = {});

}  // namespace heddle::test

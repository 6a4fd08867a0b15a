// Runs the program as a separate process, so that its resident memory can be measured, and finds where it was built.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/support/files/source_folder.h"

namespace heddle::test {

/// Where it was built, or what HEDDLE_PROGRAM says on a machine that it was carried to.
std::string program();

struct Ended {
  int code = 0;                      // -1: killed
  std::int64_t resident_bytes = 0;   // at most, over the process's life
  std::int64_t inherited_bytes = 0;  // a peak below this is not seen
  nlohmann::json summary;            // what it printed; discarded if that is no JSON
  std::string said;                  // on stderr
};

/// Its output goes through files beside `out`. It runs in `folder`; empty: in that of this process.
Ended run_program(std::vector<std::string> arguments, const std::filesystem::path& out,
                  const std::filesystem::path& folder = {});

}  // namespace heddle::test

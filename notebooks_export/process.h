// Runs another program and waits for it. Arguments are passed unchanged: no shell reads them.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace heddle {

struct Finished {
  int exit_code = 0;   // 128 + n when signal n ended it
  std::string output;  // what it wrote to stdout and stderr
};

/// Looks the program up in PATH and runs it in `folder` without input. Nothing if there is no such program.
std::optional<Finished> run_program(const std::string& program, const std::vector<std::string>& arguments,
                                    const std::filesystem::path& folder);

}  // namespace heddle

// A folder for the experiments that a test writes and the results that the program leaves there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include <nlohmann/json.hpp>

#include "framework/files/atomic_file.h"
#include "tests/support/called.h"
#include "tests/support/scratch.h"

namespace heddle::test {

class Files {
 public:
  std::string write(const nlohmann::json& experiment, const std::string& name = "small.json") {
    std::ofstream(folder_ / name.c_str()) << experiment.dump();
    return (folder_ / name.c_str()).string();
  }
  std::string path(const std::string& name) const { return (folder_ / name.c_str()).string(); }
  /// Names and contents of a folder's files.
  std::string contents(const std::string& name) const {
    std::map<std::string, std::string> all;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path(name)))
      if (entry.is_regular_file()) all[entry.path().string()] = read_file(entry.path(), std::uint64_t{1} << 30);
    std::string text;
    for (const auto& [file, content] : all) text += file + "\n" + content;
    return text;
  }

 private:
  Scratch folder_;
};

/// What a call with --json printed.
inline nlohmann::json summary(const Called& called) {
  return nlohmann::json::parse(called.out);
}

}  // namespace heddle::test

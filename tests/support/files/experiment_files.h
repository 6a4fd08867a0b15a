// A folder for the experiments that a test writes and the results that the program leaves there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include <nlohmann/json.hpp>

#include "framework/files/atomic_file.h"
#include "tests/support/program/called.h"
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

/// A few steps of a small network on synthetic faces.
inline nlohmann::json small_study() {
  return nlohmann::json::parse(R"({
    "name": "small", "threads": 1, "mesh": {"dp": 2},
    "data": {"type": "synthetic_identities", "identities": 6, "image": [1, 8, 8], "train_per_identity": 4,
             "test_per_identity": 2},
    "model": {"type": "mlp", "hidden": [12], "embedding": 5, "dropout": 0.2, "embedding_norm": true},
    "head": {"classes": 9},
    "train": {"batch": 8, "micro_batches": 2, "steps": 6}})");
}

/// The summary that a call with --json has printed.
inline nlohmann::json summary(const Called& called) {
  return nlohmann::json::parse(called.out);
}

}  // namespace heddle::test

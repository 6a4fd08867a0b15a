// One variant of a results folder, as far as runs are compared.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace heddle {

struct ComparedRun {
  std::string folder;
  std::string variant;
  std::string name;    // the folder, and the variant if the run has several
  std::string status;  // ok, failed ...
  std::string clock;   // wall or virtual
  std::int64_t steps = 0;
  /// The loss after each step, whose number counts from 1.
  std::vector<std::pair<double, std::optional<double>>> losses{};
  std::optional<double> first_loss{};
  std::optional<double> last_loss{};
  /// By the name of what was evaluated.
  std::vector<std::pair<std::string, double>> accuracies{};
  std::optional<double> step_seconds{};
  std::optional<double> images_per_second{};
  /// The bytes in each category of the rank with the largest peak. Empty if none was measured.
  std::vector<std::pair<std::string, double>> peak_bytes{};
  std::optional<double> sent_bytes{};  // by all ranks
  /// The effective experiment: JSON pointers, and the values as JSON. Lists without objects are one value.
  std::map<std::string, std::string> experiment{};

  std::optional<double> peak_total() const;
};

/// Reads summary.json and experiment.json of a results folder: one run for each variant. InputError names the file and
/// what is wrong with it.
std::vector<ComparedRun> read_runs(const std::filesystem::path& folder);

/// A key in which the experiments differ: the value in each run, which is empty where a run does not have the key.
struct Difference {
  std::string pointer;
  std::vector<std::string> values;
};
std::vector<Difference> differences(const std::vector<ComparedRun>& runs);

}  // namespace heddle

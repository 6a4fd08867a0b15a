// The results folder of one run: experiment.json, summary.json, metrics.jsonl, memory.csv,
// trace.json, schedule.csv, and for each variant a TensorBoard event file. Files of an earlier run of ours are
// replaced; what others put there stays.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/training/result.h"
#include "framework/files/atomic_file.h"

namespace heddle {

/// A variant's name as the name of a folder: what a file system or a shell may trip over is written %XX, so that
/// different names stay different.
std::string folder_name(std::string_view variant);

class ResultsFolder {
 public:
  /// Makes the folder. InputError if it cannot be made, or if another run is writing to it. What an earlier run left
  /// there stays until the first call below, so that a run which does not come to begin (a misspelt path to the data,
  /// a checkpoint of something else) costs nothing. Then experiment.json is written and, unless the run resumes the
  /// earlier one, that one's files are removed.
  ResultsFolder(std::filesystem::path path, std::string_view experiment_json, bool resume);

  const std::filesystem::path& path() const { return path_; }

  /// The next steps belong to this variant. When resuming, its steps before `first_step` are kept and returned, and
  /// the later ones dropped.
  std::vector<StepRecord> begin_variant(std::string_view name, std::int64_t first_step, std::int64_t batch);
  /// One line of metrics.jsonl and one TensorBoard record, handed to the system at once: a killed run keeps them.
  void step(const StepRecord& record);
  /// Writes all other files; may be called after each variant with what there is so far. schedule.csv is the first
  /// variant's; where there are several, each has its own in variants/NAME/.
  void write(const RunResult& run);

 private:
  void begin();

  std::filesystem::path path_;
  std::string experiment_json_;
  std::optional<FileDescriptor> lock_;  // one run at a time writes here
  bool resume_;
  bool has_begun_ = false;
  std::string variant_;
  std::int64_t batch_ = 0;
  std::optional<FileDescriptor> metrics_;
  std::optional<FileDescriptor> events_;
};

}  // namespace heddle

// The results folder of one run: experiment.json, summary.json, metrics.jsonl, memory.csv, trace.json, schedule.csv,
// roc.csv where sets were evaluated, and for each variant a TensorBoard event file. The files of an earlier run are
// replaced; all other files stay.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/results/appended_file.h"
#include "experiments/results/progress.h"
#include "experiments/training/measurements/result.h"
#include "framework/files/atomic_file.h"

namespace heddle {

/// A variant's name as the name of a folder: characters that a file system or a shell may trip over are written %XX, so
/// that different names stay different.
std::string folder_name(std::string_view variant);
/// The name of the variant whose folder has this name; the folder's if it does not have all of it.
std::string variant_of_folder(const std::string& folder);

/// Where a variant's checkpoints are in a results folder.
std::filesystem::path checkpoints_of_variant(const std::filesystem::path& results, std::string_view variant);

class ResultsFolder {
 public:
  /// Makes the folder. InputError if it cannot be made, or if another run is writing to it. The files of an earlier run
  /// stay until begin_variant or write is first called, so that a run which fails before it begins (a misspelt path to
  /// the data, a checkpoint of a different experiment) destroys nothing. Then experiment.json is written and, unless
  /// the run resumes the earlier one, the files of that one are removed; if it resumes it, only its summary is. `now`
  /// gives seconds, for write_if_due.
  ResultsFolder(std::filesystem::path path, std::string_view experiment_json, bool resume,
                std::function<double()> now = steady_seconds);

  /// Removes the folders that it made if the run has not begun, because it was refused.
  ~ResultsFolder();
  ResultsFolder(const ResultsFolder&) = delete;
  ResultsFolder& operator=(const ResultsFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  /// Does at once what the first begin_variant does with the files of an earlier run.
  void replace_earlier_run();
  /// The next steps belong to this variant. When resuming, its steps before `first_step` are kept, and the later
  /// ones dropped. Returns those that are kept. A full disk is an error only if the folder has no experiment.json yet,
  /// if the steps that are dropped are not the last ones of the file, or if the disk has not taken all lines.
  EarlierRun begin_variant(std::string_view name, std::int64_t first_step, std::int64_t batch);
  /// Makes the first variant that begins also remove the checkpoints of all variants of an earlier run.
  void replace_checkpoints() { replaces_checkpoints_ = true; }
  /// One line of metrics.jsonl and one TensorBoard record, handed to the system at once: a killed run keeps them. What
  /// a full disk does not take stays in memory and is tried again at the next step; returns the reason, once.
  std::optional<std::string> step(const StepRecord& record);
  /// Writes all other files; may be called with what there is so far. DiskError if the disk takes no more: it may be
  /// called again then. schedule.csv is the first variant's; where there are several, each has its own in
  /// variants/NAME/.
  void write(const RunResult& run);
  /// The same after each variant, unless the last write was less than a second ago and had nearly as many variants: so
  /// that a study of n short variants is written O(log n) times, and no run that is killed loses more than the last
  /// second of its summary.
  void write_if_due(const RunResult& run);
  /// Writes what is not yet written.
  void finish(const RunResult& run);

 private:
  void begin();
  /// Writes experiment.json unless it is written. DiskError if the disk takes no more.
  void describe();
  /// Writes the lines and records of steps that are still in memory. DiskError if the disk does not take them.
  void flush();
  /// Removes the steps of the present variant from `first_step` on from metrics.jsonl. Returns all its restarts, and
  /// the number of damaged lines. DiskError if steps must be removed and the disk does not take the lines that are
  /// still in memory.
  EarlierRun drop_later_steps(const std::filesystem::path& metrics, std::int64_t first_step);
  void write_schedules(const RunResult& run);
  /// Error if the folder was removed or replaced since it was made: further files would be incomplete.
  void check_that_it_is_there() const;

  std::filesystem::path path_;
  std::vector<std::filesystem::path> made_;  // the folders that did not exist, the innermost first
  std::string experiment_json_;
  std::optional<FileDescriptor> lock_;  // one run at a time writes here
  bool resume_;
  std::function<double()> now_;
  bool replaces_checkpoints_ = false;
  bool has_begun_ = false;
  bool is_described_ = false;         // experiment.json is written
  std::size_t written_variants_ = 0;  // by the last write
  double written_at_ = 0;             // the time of the last write
  std::size_t schedules_ = 0;         // variants whose schedule.csv is there
  std::string variant_;
  std::int64_t batch_ = 0;
  std::optional<AppendedFile> metrics_;
  std::vector<AppendedFile> events_;  // this variant's last; the others hold records that the disk has not taken
};

}  // namespace heddle

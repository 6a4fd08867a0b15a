// Where checkpoints lie: `results/NAME/checkpoint/VARIANT/step-000020`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace heddle {

/// The steps that a checkpoint's folder names: 20 of `step-000020`; nothing for another name.
std::optional<std::int64_t> steps_in_name(const std::string& folder);
/// The steps of the newest checkpoint in a folder or, with `before`, of the newest one of fewer steps than that;
/// nothing if there is none. InputError if the folder cannot be read.
std::optional<std::int64_t> latest_in(const std::filesystem::path& path, std::optional<std::int64_t> before = {});

/// `step-000020`.
std::string step_name(std::int64_t steps);

/// Removes all checkpoints after at most `steps_done` steps but the newest `keep`, and what killed runs have left of
/// others. What cannot be removed stays.
void remove_old(const std::filesystem::path& folder, std::int64_t steps_done, std::int64_t keep);

/// Removes all checkpoints in a folder, and what killed runs have left of others. InputError if a checkpoint cannot be
/// removed.
void remove_all_of(const std::filesystem::path& folder);

/// Removes the checkpoints after more than `steps_done` steps. InputError if one cannot be removed.
void remove_after(const std::filesystem::path& folder, std::int64_t steps_done);

struct FoundCheckpoint {
  std::filesystem::path folder;  // the parent of the folder step-...
  std::int64_t steps = 0;

  std::filesystem::path path() const { return folder / step_name(steps); }
};

/// The newest checkpoint of each variant in a results folder, sorted by path. InputError if it cannot be read.
std::vector<FoundCheckpoint> checkpoints_of_results(const std::filesystem::path& results);

/// The same of the best checkpoint of each variant (evaluation.keep_best).
std::vector<FoundCheckpoint> best_checkpoints_of_results(const std::filesystem::path& results);

/// Removes the checkpoints of all variants in a results folder, the best ones included, and the folders that this
/// leaves empty. InputError if one cannot be removed.
void remove_checkpoints_of_results(const std::filesystem::path& results);

/// The checkpoint of a path: a folder step-..., the newest one of a folder that holds some, or of a results folder with
/// one variant. InputError if there is none, or if the results have several variants, whose folders it names.
FoundCheckpoint find_checkpoint(const std::filesystem::path& path);

}  // namespace heddle

// Checkpoints: all that a run needs to go on, on the same ranks bit for bit, on any others with the same bits of
// weights and optimizer state. A checkpoint is a folder `step-000020` with one safetensors file for each rank that
// saved; it appears whole or not at all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "experiments/training/trainer.h"
#include "framework/description/plain_text.h"

namespace heddle {

/// What a run that goes on does with the head that was saved.
enum class SavedHead {
  kept,
  left  // the run goes on with a new one, as it was drawn; classes and data may be others
};

/// How checkpoints write down the experiment that they are of, so that another one does not go on from them. By default
/// in lines of plain text; the program writes JSON (`experiments/config/json_identity.h`).
struct ExperimentIdentity {
  /// The name of this form: texts of another one cannot be compared with this one's.
  std::string form = "plain";
  /// Equal texts are equal experiments.
  std::function<std::string(const Experiment&)> text = plain_text_of;
  /// The first difference of two texts, as an error shows it. Top-level keys of `except` do not count.
  std::function<std::optional<Change>(std::string_view before, std::string_view now,
                                      std::span<const std::string_view> except)>
      first_change = first_change_of_plain_text;

  static std::string plain_text_of(const Experiment& experiment);
};

class CheckpointFolder {
 public:
  explicit CheckpointFolder(std::filesystem::path path, ExperimentIdentity identity = {})
      : path_(std::move(path)), identity_(std::move(identity)) {}

  /// The number of steps done in the newest whole checkpoint.
  std::optional<std::int64_t> latest() const;
  /// Removes all checkpoints, so that those of an earlier run are not resumed.
  void clear() const;
  /// A collective call. Older checkpoints are removed once this one is whole. Lazy classes are brought up to date: a
  /// run that saves at other steps rounds them otherwise, but has the same values.
  void save(Trainer& trainer, std::int64_t steps_done) const;
  /// A collective call, by any number of ranks in any layout. A class sample keeps the number of its shards unless the
  /// experiment sets another. Gives a remark for the user: that it does, and why the run will not go on bit for bit.
  /// The remark is empty if the run will, or has a new head. InputError names the file and what does not fit: another
  /// model, number of classes, optimizer or batch, a file that is missing or damaged, or parts that do not make up the
  /// whole.
  std::string load(Trainer& trainer, std::int64_t steps_done, SavedHead head = SavedHead::kept) const;

 private:
  std::filesystem::path step_folder(std::int64_t steps_done) const;

  std::filesystem::path path_;
  ExperimentIdentity identity_;
};

}  // namespace heddle

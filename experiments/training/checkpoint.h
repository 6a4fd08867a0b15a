// Checkpoints: all that a run needs to go on, on the same ranks bit for bit, on any others with the same bits of
// weights and optimizer state. A checkpoint is a folder `step-000020` with one safetensors file a rank that saved; it
// appears whole or not at all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "experiments/training/trainer.h"

namespace heddle {

/// What a run that goes on does with the head that was saved.
enum class SavedHead {
  kept,
  left  // the run goes on with a new one, as it was drawn; classes and data may be others
};

class CheckpointFolder {
 public:
  explicit CheckpointFolder(std::filesystem::path path) : path_(std::move(path)) {}

  /// The number of steps done in the newest whole checkpoint.
  std::optional<std::int64_t> latest() const;
  /// Removes all checkpoints: those of an earlier run are not to be resumed.
  void clear() const;
  /// A collective call. Older checkpoints are removed once this one is whole. Lazy classes are caught up and go on from
  /// there: a run that saves at other steps has other bits of them, not other values.
  void save(Trainer& trainer, std::int64_t steps_done) const;
  /// A collective call, by however many ranks laid out in whatever way. A class sample keeps the number of its shards
  /// unless the experiment sets another. Gives what is to be told: that it does, and why the run will not go on bit for
  /// bit; nothing if it will, or with a new head. InputError names the file and what does not fit:
  /// another model, number of classes, optimizer or batch, a file that is missing or damaged, parts that do not make up
  /// the whole.
  std::string load(Trainer& trainer, std::int64_t steps_done, SavedHead head = SavedHead::kept) const;

 private:
  std::filesystem::path step_folder(std::int64_t steps_done) const;

  std::filesystem::path path_;
};

}  // namespace heddle

// Checkpoints: all that a run needs to go on bit for bit on the same number of ranks. A checkpoint is a folder
// `step-000020` with one safetensors file a rank; it appears whole or not at all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "experiments/trainer.h"

namespace heddle {

class CheckpointFolder {
 public:
  explicit CheckpointFolder(std::filesystem::path path) : path_(std::move(path)) {}

  /// The number of steps done in the newest whole checkpoint.
  std::optional<std::int64_t> latest() const;
  /// Removes all checkpoints: those of an earlier run are not to be resumed.
  void clear() const;
  /// A collective call. Older checkpoints are removed once this one is whole.
  void save(Trainer& trainer, std::int64_t steps_done) const;
  /// InputError names the file and what does not fit: another number of ranks, another model.
  void load(Trainer& trainer, std::int64_t steps_done) const;

 private:
  std::filesystem::path step_folder(std::int64_t steps_done) const;

  std::filesystem::path path_;
};

}  // namespace heddle

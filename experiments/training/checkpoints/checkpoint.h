// Checkpoints: the state from which a run resumes, bit for bit on the same ranks, and on any other layout with the same
// bits of weights and optimizer state. A checkpoint is a folder `step-000020` with one safetensors file for each rank
// that saved. It is complete or absent.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "experiments/training/checkpoints/checkpoint_identity.h"
#include "experiments/training/checkpoints/checkpoint_writer.h"
#include "experiments/training/trainer.h"
#include "framework/files/safetensors.h"

namespace heddle {

/// The tensors that this rank's file of a checkpoint has: of those that several ranks hold, one rank saves each.
std::vector<StateTensor> state_to_save(Trainer& trainer);

class CheckpointFolder {
 public:
  explicit CheckpointFolder(std::filesystem::path path, ExperimentIdentity identity = {})
      : path_(std::move(path)), identity_(std::move(identity)) {}

  /// The number of steps done in the newest whole checkpoint or, with `before`, in the newest one of fewer steps.
  std::optional<std::int64_t> latest(std::optional<std::int64_t> before = {}) const;
  /// Removes the checkpoints after more than these steps. InputError if they cannot be removed.
  void remove_after(std::int64_t steps_done) const;
  /// Removes all checkpoints, so that those of an earlier run are not resumed. InputError if they cannot be removed.
  void clear() const;
  /// What this rank writes of a checkpoint. All ranks call it together. Classes with deferred steps catch up first: a
  /// run that saves at different steps rounds them differently, but has the same values. `remarks` are kept beside the
  /// metadata of the run.
  CheckpointPart part(Trainer& trainer, std::int64_t steps_done, const SafetensorsMetadata& remarks = {}) const;
  /// A collective call, which returns once the checkpoint is whole, and otherwise throws why it is not.
  void save(Trainer& trainer, std::int64_t steps_done) const;
  /// A remark of a checkpoint that is a number; nothing if there is none. InputError if the checkpoint is damaged.
  std::optional<double> number(std::int64_t steps_done, const std::string& remark) const;
  /// The experiment of a checkpoint as it was written down, on one rank, with its evaluation: all that is needed to
  /// evaluate it. InputError if the checkpoint does not have it.
  std::string experiment(std::int64_t steps_done) const;
  /// Loads weights and statistics of the backbone, or their averages (saved_backbone.h), whatever else the checkpoint
  /// has, into a trainer that has no optimizer. A collective call, by any number of ranks in any layout.
  void load_backbone(Trainer& trainer, std::int64_t steps_done) const;
  /// A collective call, by any number of ranks in any layout. A class sample keeps the number of its shards unless the
  /// experiment sets a different one. Returns a note for the user, which says this, which classes stay, and why the run
  /// will not continue bit for bit. The note is empty if it will, or if the head is new. InputError names the file and
  /// the fault: a different model, number of classes, optimizer or batch, a file that is missing or damaged, or parts
  /// that do not make up the whole.
  std::string load(Trainer& trainer, std::int64_t steps_done, SavedHead head = SavedHead::kept) const;

 private:
  std::filesystem::path step_folder(std::int64_t steps_done) const;

  std::filesystem::path path_;
  ExperimentIdentity identity_;
};

}  // namespace heddle

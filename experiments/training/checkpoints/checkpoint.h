// Checkpoints: the state from which a run resumes, bit for bit on the same ranks, and on any other layout with the same
// bits of weights and optimizer state. A checkpoint is a folder `step-000020` with one safetensors file for each rank
// that saved. It is complete or absent.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/training/checkpoints/checkpoint_writer.h"
#include "experiments/training/trainer.h"
#include "framework/description/plain_text.h"
#include "framework/files/safetensors.h"

namespace heddle {

/// What a resumed run does with the head that was saved.
enum class SavedHead {
  kept,
  grown,  // classes that the run has, too, keep their state; people may be added and dropped
  fresh   // the run starts with a newly drawn head; classes and data may differ
};

/// How checkpoints record their experiment, so that a different one does not resume from them. By default they record
/// lines of plain text; the program records JSON (`experiments/config/json_identity.h`).
struct ExperimentIdentity {
  /// The name of this form: texts of a different form cannot be compared with it.
  std::string form = "plain";
  /// Equal texts are equal experiments.
  std::function<std::string(const Experiment&)> text = plain_text_of;
  /// The first difference of two texts, as an error shows it. Top-level keys of `except` do not count.
  std::function<std::optional<Change>(std::string_view before, std::string_view now,
                                      std::span<const std::string_view> except)>
      first_change = first_change_of_plain_text;
  /// The experiment that such a text describes, with the defaults of all keys that the text lacks: a checkpoint of an
  /// earlier version can be resumed although the experiment has more keys now. Nothing if it cannot be read.
  std::function<std::optional<Experiment>(std::string_view text)> read = [](std::string_view) {
    return std::optional<Experiment>();
  };

  static std::string plain_text_of(const Experiment& experiment);
};

/// The tensors that this rank's file of a checkpoint has: of those that several ranks hold, one rank saves each.
std::vector<StateTensor> state_to_save(Trainer& trainer);

class CheckpointFolder {
 public:
  explicit CheckpointFolder(std::filesystem::path path, ExperimentIdentity identity = {})
      : path_(std::move(path)), identity_(std::move(identity)) {}

  /// The number of steps done in the newest whole checkpoint.
  std::optional<std::int64_t> latest() const;
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

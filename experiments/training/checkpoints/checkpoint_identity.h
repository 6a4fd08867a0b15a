// The identity of a checkpoint: the metadata that the files of all ranks have in common. A run resumes from a
// checkpoint only if their identities agree in what must not change.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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

/// Keys of the metadata. `head_begun`: the step in which the saved head began to train; `loss_scale`: the state of the
/// loss scale, in f16 only.
namespace checkpoint_keys {
inline constexpr const char* head_begun = "head_begun";
inline constexpr const char* loss_scale = "loss_scale";
/// The number of shards in which a head samples its classes.
std::string sampled_shards(const Experiment& experiment, std::size_t set);
/// The experiment on one rank, with its evaluation sets; `heddle eval` reads this text.
std::string evaluated_experiment(const ExperimentIdentity& form);
}  // namespace checkpoint_keys

/// By what two sets of training images are compared: by checksums of their names, labels and sizes, or, where there are
/// none, by the places that the experiment names. Checkpoints of earlier versions have no checksums.
enum class DataIdentity { checksums, places };
DataIdentity data_identity_of(const Dataset& dataset);
DataIdentity data_identity_of(const SafetensorsMetadata& saved);

/// The identity that a checkpoint of this trainer has. The model's sizes show in its tensors.
SafetensorsMetadata identity_of(Trainer& trainer, std::int64_t steps_done, const ExperimentIdentity& form,
                                DataIdentity data);

/// The identity of a checkpoint as this version would have written it, whose experiment may have more keys.
SafetensorsMetadata as_written_now(SafetensorsMetadata saved, const ExperimentIdentity& form);

/// Compares the identity of a checkpoint with the one that the resumed run would write. The `expect...` functions throw
/// an InputError, which names the folder of the checkpoint and what differs.
class IdentityComparison {
 public:
  /// The metadata and the form must outlive this object.
  IdentityComparison(std::filesystem::path folder, const SafetensorsMetadata& saved, const SafetensorsMetadata& here,
                     const ExperimentIdentity& form)
      : folder_(std::move(folder)), saved_(saved), here_(here), form_(form) {}

  void expect(const std::string& key) const;
  /// The experiment but for its run settings and layout; what else may differ depends on what is done with the head.
  void expect_experiment(SavedHead head) const;
  void expect_images() const;

  bool has_same_backbone() const { return same("backbone"); }
  /// Whether the head was trained on the same experiment and the same images.
  bool has_same_head() const;
  bool has_same_image_sizes() const;
  /// Notes for the user: why the run will not continue bit for bit. Empty if it will.
  std::vector<std::string> differences(const Experiment& experiment, SavedHead head) const;

 private:
  std::string saved(const std::string& key) const;
  const std::string& here(const std::string& key) const { return here_.at(key); }
  bool same(const std::string& key) const;
  /// ` (KEY was X, is Y)`: the first difference of the experiments; empty if it is not known.
  std::string first_change(std::span<const std::string_view> except) const;
  /// The first difference apart from the people.
  std::string first_change_of_others() const;

  std::filesystem::path folder_;
  const SafetensorsMetadata& saved_;
  const SafetensorsMetadata& here_;
  const ExperimentIdentity& form_;
};

}  // namespace heddle

#include "experiments/training/checkpoints/checkpoint_identity.h"

#include <algorithm>
#include <array>

#include <fmt/ranges.h>

#include "experiments/training/checkpoints/compared_experiment.h"
#include "framework/description/describe.h"
#include "framework/description/printable.h"
#include "framework/files/crc32c.h"

namespace heddle {

namespace {

/// The key of the checksum that stays the same if only people are added and dropped.
constexpr const char* without_people_key = "without_people";
/// What the training images are, if the experiment is compared without their places.
constexpr const char* training_images = "training_images";
constexpr const char* training_image_sizes = "training_image_sizes";
constexpr std::string_view agreement = "the losses agree within rounding";

std::string checksum_of(const std::string& text) {
  return fmt::format("{:08x}", crc32c(text));
}

/// The key of the experiment's text, which has all that must not change.
std::string text_key(const ExperimentIdentity& form) {
  return fmt::format("experiment_{}", form.form);
}

std::string in_words(const std::optional<Change>& change) {
  return change ? fmt::format(" ({} was {}, is {})", change->key, change->before, change->now) : "";
}

}  // namespace

std::string ExperimentIdentity::plain_text_of(const Experiment& experiment) {
  return plain_text([copy = experiment](Describer& d) mutable { describe(d, copy); });
}

std::string checkpoint_keys::sampled_shards(const Experiment& experiment, std::size_t set) {
  return experiment.heads() == 1 ? "sampled_shards" : fmt::format("sampled_shards_{}", experiment.data_of(set).name);
}

std::string checkpoint_keys::evaluated_experiment(const ExperimentIdentity& form) {
  return fmt::format("evaluated_{}", form.form);
}

DataIdentity data_identity_of(const Dataset& dataset) {
  return dataset.training_checksum() ? DataIdentity::checksums : DataIdentity::places;
}

DataIdentity data_identity_of(const SafetensorsMetadata& saved) {
  return saved.contains(training_images) ? DataIdentity::checksums : DataIdentity::places;
}

SafetensorsMetadata identity_of(Trainer& trainer, std::int64_t steps_done, const ExperimentIdentity& form,
                                DataIdentity data) {
  const Experiment& experiment = trainer.experiment();
  const Experiment with_layout = without_run_settings(experiment);
  const Experiment learned = without_layout(with_layout);
  const auto compared = [&](const Experiment& reduced) {
    return form.text(data == DataIdentity::checksums ? without_places(reduced) : reduced);
  };
  const Mesh& mesh = trainer.rank().mesh;
  SafetensorsMetadata identity{
      {"ranks", std::to_string(mesh.size())},
      {"steps", std::to_string(steps_done)},
      {"seed", std::to_string(experiment.seed)},
      {"batch", std::to_string(experiment.train.batch)},
      {"mesh", to_string(mesh)},
      {"micro_batches", std::to_string(experiment.train.micro_batches)},
      {"sample_groups",
       std::to_string(trainer.plan().model->norm_groups(mesh.size(Axis::dp), experiment.train.micro_batches))},
      {"stages", fmt::format("layers {}", fmt::join(trainer.plan().cut.begins, ", "))},
      {checkpoint_keys::head_begun, std::to_string(trainer.head_first_step())},
      {"layout", checksum_of(compared(with_layout))},
      {"experiment", checksum_of(compared(learned))},
      {"backbone", checksum_of(form.text(without_head(learned)))},
      {without_people_key, checksum_of(form.text(without_people(learned)))},
      {text_key(form), compared(learned)},
      {checkpoint_keys::evaluated_experiment(form), form.text(with_evaluation_of(learned, experiment))}};
  for (std::size_t set = 0; set < experiment.heads(); ++set)
    identity.emplace(checkpoint_keys::sampled_shards(experiment, set), std::to_string(trainer.sample_shards(set)));
  if (const auto checksum = trainer.dataset().training_checksum(); checksum && data == DataIdentity::checksums) {
    identity.emplace(training_images, fmt::format("{} with checksum {:08x}", checksum->images, checksum->names));
    identity.emplace(training_image_sizes, fmt::format("{:08x}", checksum->sizes));
  }
  if (const std::optional<LossScale>& scale = trainer.parameters().loss_scale())
    identity.emplace(checkpoint_keys::loss_scale, scale->to_text());
  return identity;
}

SafetensorsMetadata as_written_now(SafetensorsMetadata saved, const ExperimentIdentity& form) {
  const auto text = saved.find(text_key(form));
  if (text == saved.end()) return saved;
  const std::optional<Experiment> experiment = form.read(text->second);
  if (!experiment) return saved;
  text->second = form.text(*experiment);
  saved["experiment"] = checksum_of(text->second);
  saved["backbone"] = checksum_of(form.text(without_head(*experiment)));
  saved[without_people_key] = checksum_of(form.text(without_people(*experiment)));
  return saved;
}

std::string IdentityComparison::saved(const std::string& key) const {
  const auto found = saved_.find(key);
  return found == saved_.end() ? "nothing" : shortened(found->second);
}

bool IdentityComparison::same(const std::string& key) const {
  const auto found = saved_.find(key);
  return found != saved_.end() && found->second == here(key);
}

void IdentityComparison::expect(const std::string& key) const {
  if (!same(key))
    fail<InputError>("{}: was saved with {} = {}, this run has {}: a resumed run must keep it", folder_.string(), key,
                     saved(key), here(key));
}

void IdentityComparison::expect_experiment(SavedHead head) const {
  if (head == SavedHead::kept && !same("experiment"))
    fail<InputError>(
        "{}: was saved by a different experiment{}: only the number of steps, what is saved, the evaluation and the "
        "layout over ranks may change{}",
        folder_.string(), first_change({}),
        same(without_people_key) ? "; --grow-head adds and removes people"
        : same("backbone")       ? "; --fresh-head begins a new head"
                                 : "");
  if (head == SavedHead::grown && !same(without_people_key))
    fail<InputError>("{}: was saved by a different experiment{}: with a grown head, data and head.classes may change",
                     folder_.string(), first_change_of_others());
  constexpr std::array<std::string_view, 2> of_head{"head", "data"};
  if (!same("backbone"))
    fail<InputError>("{}: was saved by a different experiment{}: with a new head, head and data may change, too",
                     folder_.string(), first_change(of_head));
}

void IdentityComparison::expect_images() const {
  const auto found = here_.find(training_images);
  if (found == here_.end() || !same(training_images))
    fail<InputError>(
        "{}: was saved with other training images, {}, and this run has {}: a resumed run must keep their names, "
        "labels and weights; with a new head, the data may change (--fresh-head)",
        folder_.string(), saved(training_images), found == here_.end() ? "none" : found->second);
}

bool IdentityComparison::has_same_head() const {
  return same("experiment") && (data_identity_of(saved_) == DataIdentity::places ||
                                (here_.contains(training_images) && same(training_images)));
}

bool IdentityComparison::has_same_image_sizes() const {
  return same(training_image_sizes);
}

std::vector<std::string> IdentityComparison::differences(const Experiment& experiment, SavedHead head) const {
  if (same("layout") && same("stages")) return {};
  std::vector<std::string> notes;
  if (!same("mesh") || !same("micro_batches"))
    notes.push_back(
        fmt::format("resumes on a different layout (saved on {} with micro_batches = {}, now {} with {}): {}",
                    saved("mesh"), saved("micro_batches"), here("mesh"), here("micro_batches"), agreement));
  else if (head == SavedHead::kept || !same("stages"))  // the layout of a grown head has other classes
    notes.push_back(fmt::format("resumes on a different layout: {}", agreement));
  if (!same("sample_groups"))
    notes.push_back(fmt::format("batch norms normalised a batch in {} groups, now in {}", saved("sample_groups"),
                                here("sample_groups")));
  for (std::size_t set = 0; set < experiment.heads(); ++set)
    if (const std::string key = checkpoint_keys::sampled_shards(experiment, set); !same(key))
      notes.push_back(fmt::format("classes were sampled in {} shards, now in {} ({}.sample.shards)", saved(key),
                                  here(key), key_of(experiment, "head", set)));
  return notes;
}

std::string IdentityComparison::first_change(std::span<const std::string_view> except) const {
  const std::string key = text_key(form_);
  const auto found = saved_.find(key);
  if (found == saved_.end()) return {};
  return in_words(form_.first_change(found->second, here(key), except));
}

std::string IdentityComparison::first_change_of_others() const {
  const auto text_of = [&](const std::string& text) {
    const std::optional<Experiment> experiment = form_.read(text);
    return experiment ? form_.text(without_people(*experiment)) : "";
  };
  const auto found = saved_.find(text_key(form_));
  if (found == saved_.end()) return {};
  return in_words(form_.first_change(text_of(found->second), text_of(here(found->first)), {}));
}

}  // namespace heddle

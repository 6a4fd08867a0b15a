#include "experiments/training/checkpoints/checkpoint.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include <fmt/ranges.h>

#include "experiments/training/checkpoints/checkpoint_files.h"
#include "experiments/training/checkpoints/class_names.h"
#include "experiments/training/checkpoints/compared_experiment.h"
#include "experiments/training/checkpoints/find_checkpoint.h"
#include "experiments/training/checkpoints/grown_head.h"
#include "experiments/training/checkpoints/saved_backbone.h"
#include "framework/description/describe.h"
#include "framework/description/printable.h"
#include "framework/files/crc32c.h"

namespace heddle {

namespace {

/// The step in which the saved head began to train.
constexpr const char* head_begun = "head_begun";
/// Everything that must not change, in the form that follows this.
constexpr std::string_view experiment_prefix = "experiment_";
/// The same on one rank, with its evaluation sets; `heddle eval` reads this one.
constexpr std::string_view evaluated_prefix = "evaluated_";
/// The experiment in which only people are added and dropped.
constexpr const char* without_people_key = "without_people";
/// The state of the loss scale, in f16 only.
constexpr const char* loss_scale = "loss_scale";
/// What the training images are, if the experiment is compared without their places. Checkpoints of earlier versions
/// lack both.
constexpr const char* training_images = "training_images";
constexpr const char* training_image_sizes = "training_image_sizes";
constexpr std::string_view agreement = "the losses agree within rounding";

std::string checksum_of(const std::string& text) {
  return fmt::format("{:08x}", crc32c(text));
}

/// The key of the number of shards in which a head samples its classes.
std::string shards_key(const Experiment& experiment, std::size_t set) {
  return experiment.heads() == 1 ? "sampled_shards" : fmt::format("sampled_shards_{}", experiment.data_of(set).name);
}

std::string text_key(const ExperimentIdentity& form) {
  return fmt::format("{}{}", experiment_prefix, form.form);
}

/// The number of sample groups by whose statistics batch norms normalise a batch; 0 without such layers.
std::int64_t sample_groups(const Experiment& experiment, const Mesh& mesh, const ModelSpec& model) {
  const auto& layers = model.applications();
  if (std::none_of(layers.begin(), layers.end(), [](const auto& a) { return a.layer->has_batch_statistics(); }))
    return 0;
  return experiment.train.micro_batches * (experiment.model.synchronized_norms ? 1 : mesh.size(Axis::dp));
}

/// By what two sets of training images are compared.
enum class DataIdentity { checksums, places };

/// The metadata that the files of all ranks have in common. The model's sizes show in its tensors.
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
      {"sample_groups", std::to_string(sample_groups(experiment, mesh, *trainer.plan().model))},
      {"stages", fmt::format("layers {}", fmt::join(trainer.plan().cut.begins, ", "))},
      {head_begun, std::to_string(trainer.head_first_step())},
      {"layout", checksum_of(compared(with_layout))},
      {"experiment", checksum_of(compared(learned))},
      {"backbone", checksum_of(form.text(without_head(learned)))},
      {without_people_key, checksum_of(form.text(without_people(learned)))},
      {text_key(form), compared(learned)},
      {fmt::format("{}{}", evaluated_prefix, form.form), form.text(with_evaluation_of(learned, experiment))}};
  for (std::size_t set = 0; set < experiment.heads(); ++set)
    identity.emplace(shards_key(experiment, set), std::to_string(trainer.sample_shards(set)));
  if (const auto checksum = trainer.dataset().training_checksum(); checksum && data == DataIdentity::checksums) {
    identity.emplace(training_images, fmt::format("{} with checksum {:08x}", checksum->images, checksum->names));
    identity.emplace(training_image_sizes, fmt::format("{:08x}", checksum->sizes));
  }
  if (trainer.parameters().loss_scale()) identity.emplace(loss_scale, trainer.parameters().loss_scale()->to_text());
  return identity;
}

/// The metadata of a checkpoint as this version would have written them, whose experiment may have more keys.
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

void load_loss_scale(Trainer& trainer, const SafetensorsMetadata& saved) {
  if (!trainer.parameters().loss_scale()) return;
  const auto found = saved.find(loss_scale);
  try {
    trainer.parameters().loss_scale()->set(found == saved.end() ? "" : found->second);
  } catch (const InputError& error) {
    fail<InputError>("checkpoint: {}: {}", loss_scale, error.what());
  }
}

/// A number in [0, most] that was saved; 0 if none was.
std::int64_t saved_count(const SafetensorsMetadata& saved, const std::string& key, std::int64_t most) {
  const auto found = saved.find(key);
  if (found == saved.end()) return 0;
  const char* const end = found->second.data() + found->second.size();
  std::int64_t count = -1;
  const auto [stopped, error] = std::from_chars(found->second.data(), end, count);
  if (error != std::errc() || stopped != end || count < 0 || count > most)
    fail<InputError>("checkpoint: {}: expected a number from 0 to {}, got \"{}\"", key, most, shortened(found->second));
  return count;
}

/// The number of shards in which a resumed run samples the classes of a head, if it differs from the run's default: a
/// number that the experiment does not set stays as it was, whatever the number of ranks is now.
std::optional<std::int64_t> kept_shards(const Trainer& trainer, const SafetensorsMetadata& saved, std::size_t set) {
  const HeadConfig& head = trainer.experiment().head_of(set);
  if (!head.samples() || head.sample.shards > 0) return {};
  constexpr std::int64_t max_shards = 1'000'000;
  const std::int64_t shards = saved_count(saved, shards_key(trainer.experiment(), set), max_shards);
  if (shards < 1 || shards == trainer.sample_shards(set)) return {};
  return shards;
}

/// Adds what the checkpoint has of each head's classes that stay, and returns a note of them.
std::string add_grown_heads(Trainer& trainer, const CheckpointFiles& files, std::vector<StateTensor>& wanted) {
  const Experiment& experiment = trainer.experiment();
  const ClassNames names(experiment, trainer.dataset());
  std::string note;
  for (std::size_t set = 0; set < experiment.heads(); ++set) {
    const HeadConfig& config = experiment.head_of(set);
    const std::string name = head_name(experiment, set);
    const std::optional<CheckpointFiles::Whole> saved = files.find(name + ".weight");
    if (!saved || saved->shape[0] < config.sub_centres)
      fail<InputError>("{}: has no class weights {}.weight", files.folder().string(), name);
    const ClassOrigins origins(ClassNames::read(files.folder(), files.identity(), experiment, set),
                               saved->shape[0] / config.sub_centres, names.of_set(set), config.classes,
                               fmt::format("{}: {}", files.folder().string(), name));
    for (const StateTensor& tensor : trainer.head_state(set))
      for (StateTensor& part : saved_parts(tensor, origins)) wanted.push_back(std::move(part));
    note += fmt::format("{}{} goes {}", note.empty() ? "" : "; ", name, origins.description());
  }
  return note;
}

/// A collective call.
void load_verified(const CheckpointFiles& files, const std::vector<StateTensor>& wanted, Rank& rank) {
  // Each file is verified by one rank. No rank reads before all are known to be sound: it would find a wrong reason.
  for (int file = rank.index; file < files.size(); file += rank.size) files.verify(file);
  rank.world.barrier().wait();
  for (int i = 0; i < files.size(); ++i) files.load((i + rank.index) % files.size(), wanted);
  rank.world.barrier().wait();
}

/// Compares the metadata of a checkpoint with those that this run would write.
class Comparison {
 public:
  Comparison(std::filesystem::path folder, const SafetensorsMetadata& saved, const SafetensorsMetadata& here,
             const ExperimentIdentity& form)
      : folder_(std::move(folder)), saved_(saved), here_(here), form_(form) {}

  std::string saved(const std::string& key) const {
    const auto found = saved_.find(key);
    return found == saved_.end() ? "nothing" : shortened(found->second);
  }
  const std::string& here(const std::string& key) const { return here_.at(key); }
  bool same(const std::string& key) const {
    const auto found = saved_.find(key);
    return found != saved_.end() && found->second == here(key);
  }

  void expect(const std::string& key) const {
    if (!same(key))
      fail<InputError>("{}: was saved with {} = {}, this run has {}: a resumed run must keep it", folder_.string(), key,
                       saved(key), here(key));
  }

  void expect_experiment(SavedHead head) const {
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

  void expect_images() const {
    const auto found = here_.find(training_images);
    if (found == here_.end() || !same(training_images))
      fail<InputError>(
          "{}: was saved with other training images, {}, and this run has {}: a resumed run must keep their names, "
          "labels and weights; with a new head, the data may change (--fresh-head)",
          folder_.string(), saved(training_images), found == here_.end() ? "none" : found->second);
  }

  std::vector<std::string> differences(const Experiment& experiment, SavedHead head) const {
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
      if (const std::string key = shards_key(experiment, set); !same(key))
        notes.push_back(fmt::format("classes were sampled in {} shards, now in {} ({}.sample.shards)", saved(key),
                                    here(key), key_of(experiment, "head", set)));
    return notes;
  }

 private:
  std::string first_change(std::span<const std::string_view> except) const {
    const std::string key = text_key(form_);
    const auto found = saved_.find(key);
    if (found == saved_.end()) return {};
    return in_words(form_.first_change(found->second, here(key), except));
  }

  /// The first change apart from the people.
  std::string first_change_of_others() const {
    const auto text_of = [&](const std::string& text) {
      const std::optional<Experiment> experiment = form_.read(text);
      return experiment ? form_.text(without_people(*experiment)) : "";
    };
    const auto found = saved_.find(text_key(form_));
    if (found == saved_.end()) return {};
    return in_words(form_.first_change(text_of(found->second), text_of(here(found->first)), {}));
  }

  static std::string in_words(const std::optional<Change>& change) {
    return change ? fmt::format(" ({} was {}, is {})", change->key, change->before, change->now) : "";
  }

  std::filesystem::path folder_;
  const SafetensorsMetadata& saved_;
  const SafetensorsMetadata& here_;
  const ExperimentIdentity& form_;
};

}  // namespace

std::string ExperimentIdentity::plain_text_of(const Experiment& experiment) {
  return plain_text([copy = experiment](Describer& d) mutable { describe(d, copy); });
}

std::vector<StateTensor> state_to_save(Trainer& trainer) {
  std::vector<StateTensor> state = trainer.state();
  const Rank& rank = trainer.rank();
  std::erase_if(state, [&](const StateTensor& tensor) { return owner(tensor.part, rank) != rank.index; });
  return state;
}

std::filesystem::path CheckpointFolder::step_folder(std::int64_t steps_done) const {
  return path_ / step_name(steps_done);
}

std::optional<std::int64_t> CheckpointFolder::latest() const {
  return latest_in(path_);
}

void CheckpointFolder::clear() const {
  remove_old(path_, std::numeric_limits<std::int64_t>::max(), 0);
  if (const auto steps = latest())
    fail<InputError>("{}: the checkpoint of an earlier run cannot be removed", step_folder(*steps).string());
}

std::optional<double> CheckpointFolder::number(std::int64_t steps_done, const std::string& remark) const {
  const CheckpointFiles files(step_folder(steps_done));
  const auto found = files.identity().find(remark);
  if (found == files.identity().end()) return {};
  const std::string& text = found->second;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    fail<InputError>("{}: {}: expected a number, got {}", step_folder(steps_done).string(), remark, in_quotes(text));
  return value;
}

std::string CheckpointFolder::experiment(std::int64_t steps_done) const {
  const CheckpointFiles files(step_folder(steps_done));
  const auto found = files.identity().find(fmt::format("{}{}", evaluated_prefix, identity_.form));
  if (found != files.identity().end()) return found->second;
  fail<InputError>("{}: lacks the experiment for its evaluation: another program or an earlier version saved it",
                   step_folder(steps_done).string());
}

void CheckpointFolder::load_backbone(Trainer& trainer, std::int64_t steps_done) const {
  const CheckpointFiles files(step_folder(steps_done));
  const SavedBackbone backbone(trainer, files);
  for (const StateTensor& tensor : backbone.wanted()) files.check(tensor);
  load_verified(files, backbone.wanted(), trainer.rank());
  backbone.convert();
}

CheckpointPart CheckpointFolder::part(Trainer& trainer, std::int64_t steps_done,
                                      const SafetensorsMetadata& remarks) const {
  const bool has_checksum = trainer.dataset().training_checksum().has_value();
  CheckpointPart part{.folder = path_,
                      .steps_done = steps_done,
                      .tensors = state_to_save(trainer),
                      .metadata = identity_of(trainer, steps_done, identity_,
                                              has_checksum ? DataIdentity::checksums : DataIdentity::places),
                      .names = ClassNames(trainer.experiment(), trainer.dataset())};
  part.metadata.insert(remarks.begin(), remarks.end());
  part.names.add_checksums(part.metadata);
  return part;
}

void CheckpointFolder::save(Trainer& trainer, std::int64_t steps_done) const {
  CheckpointWriter writer(trainer.rank());
  writer.start(part(trainer, steps_done), false);
  if (const auto written = writer.finish(); written->failure) raise(*written->failure);
}

std::string CheckpointFolder::load(Trainer& trainer, std::int64_t steps_done, SavedHead head) const {
  Rank& rank = trainer.rank();
  const CheckpointFiles files(step_folder(steps_done));
  std::string kept;  // of the heads' shards
  for (std::size_t set = 0; head != SavedHead::fresh && set < trainer.experiment().heads(); ++set) {
    const std::optional<std::int64_t> shards = kept_shards(trainer, files.identity(), set);
    if (!shards) continue;
    trainer.set_sample_shards(set, *shards);
    kept += fmt::format("{}classes are sampled in {} shards as before ({}.sample.shards)", kept.empty() ? "" : "; ",
                        *shards, key_of(trainer.experiment(), "head", set));
  }
  const bool has_checksum = files.identity().contains(training_images);
  const SafetensorsMetadata here =
      identity_of(trainer, steps_done, identity_, has_checksum ? DataIdentity::checksums : DataIdentity::places);
  const SafetensorsMetadata saved = as_written_now(files.identity(), identity_);
  const Comparison comparison(files.folder(), saved, here, identity_);
  for (const char* key : {"steps", "seed", "batch"}) comparison.expect(key);
  std::vector<StateTensor> wanted = trainer.backbone_state();
  std::string grown;  // the classes that stay
  if (head == SavedHead::kept)
    for (StateTensor& tensor : trainer.head_state()) wanted.push_back(std::move(tensor));
  // Shapes would say less about a different head, and more about a different backbone.
  if (head == SavedHead::grown || comparison.same("backbone")) comparison.expect_experiment(head);
  if (head == SavedHead::grown) grown = add_grown_heads(trainer, files, wanted);
  for (const StateTensor& tensor : wanted) files.check(tensor);
  comparison.expect_experiment(head);
  if (has_checksum && head == SavedHead::kept) comparison.expect_images();
  const bool is_same_head = comparison.same("experiment") && (!has_checksum || comparison.same(training_images));
  const bool is_changed = head == SavedHead::fresh || (head == SavedHead::grown && !is_same_head);
  if (is_changed && steps_done == trainer.experiment().train.steps)
    fail<InputError>("{}: all {} steps are done, so that the changed head would not be trained: raise train.steps",
                     files.folder().string(), steps_done);
  load_loss_scale(trainer, files.identity());
  trainer.set_head_first_step(head == SavedHead::fresh ? trainer.parameters().optimizer_steps(steps_done)
                                                       : saved_count(files.identity(), head_begun, steps_done));
  load_verified(files, wanted, rank);
  if (head == SavedHead::fresh) return {};
  std::vector<std::string> notes = comparison.differences(trainer.experiment(), head);
  if (has_checksum && head == SavedHead::kept && !comparison.same(training_image_sizes))
    notes.emplace_back("training images have other sizes in bytes than when the checkpoint was saved");
  for (const std::string& more : {kept, grown})
    if (!more.empty()) notes.push_back(more);
  return fmt::format("{}", fmt::join(notes, "; "));
}

}  // namespace heddle

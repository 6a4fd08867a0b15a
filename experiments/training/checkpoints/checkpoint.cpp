#include "experiments/training/checkpoints/checkpoint.h"

#include <algorithm>
#include <charconv>

#include <fmt/ranges.h>

#include "experiments/training/checkpoints/checkpoint_files.h"
#include "experiments/training/checkpoints/class_names.h"
#include "experiments/training/checkpoints/find_checkpoint.h"
#include "experiments/training/checkpoints/grown_head.h"
#include "experiments/training/checkpoints/saved_backbone.h"
#include "framework/description/printable.h"

namespace heddle {

namespace {

void load_loss_scale(Trainer& trainer, const SafetensorsMetadata& saved) {
  if (!trainer.parameters().loss_scale()) return;
  const auto found = saved.find(checkpoint_keys::loss_scale);
  try {
    trainer.parameters().loss_scale()->set(found == saved.end() ? "" : found->second);
  } catch (const InputError& error) {
    fail<InputError>("checkpoint: {}: {}", checkpoint_keys::loss_scale, error.what());
  }
}

/// The number from 0 to `most` that was saved under a key; nothing if none was.
std::optional<std::int64_t> saved_count(const SafetensorsMetadata& saved, const std::string& key, std::int64_t most) {
  const auto found = saved.find(key);
  if (found == saved.end()) return {};
  const char* const end = found->second.data() + found->second.size();
  std::int64_t count = -1;
  const auto [stopped, error] = std::from_chars(found->second.data(), end, count);
  if (error != std::errc() || stopped != end || count < 0 || count > most)
    fail<InputError>("checkpoint: {}: expected a number from 0 to {}, got \"{}\"", key, most, shortened(found->second));
  return count;
}

/// Lets each head sample its classes in as many shards as before, unless the experiment sets their number, whatever the
/// number of ranks is now. Returns a note of the numbers that differ from the run's defaults.
std::string keep_sample_shards(Trainer& trainer, const SafetensorsMetadata& saved) {
  constexpr std::int64_t max_shards = 1'000'000;
  const Experiment& experiment = trainer.experiment();
  std::string note;
  for (std::size_t set = 0; set < experiment.heads(); ++set) {
    const HeadConfig& head = experiment.head_of(set);
    if (!head.samples() || head.sample.shards > 0) continue;
    const std::int64_t shards =
        saved_count(saved, checkpoint_keys::sampled_shards(experiment, set), max_shards).value_or(0);
    if (shards < 1 || shards == trainer.sample_shards(set)) continue;
    trainer.set_sample_shards(set, shards);
    note += fmt::format("{}classes are sampled in {} shards as before ({}.sample.shards)", note.empty() ? "" : "; ",
                        shards, key_of(experiment, "head", set));
  }
  return note;
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

/// Returns what `action` returns. Its InputErrors about the checkpoint then also name the one before it, if there is
/// one.
template <class Action>
auto naming_the_one_before(const std::filesystem::path& folder, std::int64_t steps_done, const Action& action) {
  try {
    return action();
  } catch (const InputError& error) {
    const std::optional<std::int64_t> before = latest_in(folder, steps_done);
    if (!before) throw;
    fail<InputError>("{}; the checkpoint before it is {}", error.what(), step_name(*before));
  }
}

/// A collective call.
void load_verified(const CheckpointFiles& files, const std::vector<StateTensor>& wanted, Rank& rank) {
  // Each file is verified by one rank. No rank reads before all are known to be sound: it would find a wrong reason.
  for (int file = rank.index; file < files.size(); file += rank.size) files.verify(file);
  rank.world.barrier().wait();
  for (int i = 0; i < files.size(); ++i) files.load((i + rank.index) % files.size(), wanted);
  rank.world.barrier().wait();
}

}  // namespace

std::vector<StateTensor> state_to_save(Trainer& trainer) {
  std::vector<StateTensor> state = trainer.state();
  const Rank& rank = trainer.rank();
  std::erase_if(state, [&](const StateTensor& tensor) { return owner(tensor.part, rank) != rank.index; });
  return state;
}

std::filesystem::path CheckpointFolder::step_folder(std::int64_t steps_done) const {
  return path_ / step_name(steps_done);
}

std::optional<std::int64_t> CheckpointFolder::latest(std::optional<std::int64_t> before) const {
  return latest_in(path_, before);
}

void CheckpointFolder::clear() const {
  remove_all_of(path_);
}

void CheckpointFolder::remove_after(std::int64_t steps_done) const {
  heddle::remove_after(path_, steps_done);
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
  const auto found = files.identity().find(checkpoint_keys::evaluated_experiment(identity_));
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
  trainer.catch_up_all();
  CheckpointPart part{.folder = path_,
                      .steps_done = steps_done,
                      .tensors = state_to_save(trainer),
                      .metadata = identity_of(trainer, steps_done, identity_, data_identity_of(trainer.dataset())),
                      .names = ClassNames(trainer.experiment(), trainer.dataset())};
  part.metadata.insert(remarks.begin(), remarks.end());
  part.names.add_checksums(part.metadata);
  return part;
}

void CheckpointFolder::save(Trainer& trainer, std::int64_t steps_done) const {
  CheckpointWriter writer(trainer.rank());
  writer.start(part(trainer, steps_done), {});
  if (const auto written = writer.finish(); written->failure) raise(*written->failure);
}

std::string CheckpointFolder::load(Trainer& trainer, std::int64_t steps_done, SavedHead head) const {
  const CheckpointFiles files =
      naming_the_one_before(path_, steps_done, [&] { return CheckpointFiles(step_folder(steps_done)); });
  const std::string kept_shards = head == SavedHead::fresh ? "" : keep_sample_shards(trainer, files.identity());
  const DataIdentity data = data_identity_of(files.identity());
  const SafetensorsMetadata here = identity_of(trainer, steps_done, identity_, data);
  const SafetensorsMetadata saved = as_written_now(files.identity(), identity_);
  const IdentityComparison comparison(files.folder(), saved, here, identity_);
  for (const char* key : {"steps", "seed", "batch"}) comparison.expect(key);
  std::vector<StateTensor> wanted = trainer.backbone_state();
  if (head == SavedHead::kept)
    for (StateTensor& tensor : trainer.head_state()) wanted.push_back(std::move(tensor));
  // Shapes would say less about a different head, and more about a different backbone. The name of a missing tensor
  // would say less about both.
  const bool has_all = std::all_of(wanted.begin(), wanted.end(),
                                   [&](const StateTensor& tensor) { return files.find(tensor.name).has_value(); });
  if (head == SavedHead::grown || !has_all || comparison.has_same_backbone()) comparison.expect_experiment(head);
  const std::string grown_heads = head == SavedHead::grown ? add_grown_heads(trainer, files, wanted) : "";
  for (const StateTensor& tensor : wanted) files.check(tensor);
  comparison.expect_experiment(head);
  const bool compares_images = data == DataIdentity::checksums && head == SavedHead::kept;
  if (compares_images) comparison.expect_images();
  const bool is_changed = head == SavedHead::fresh || (head == SavedHead::grown && !comparison.has_same_head());
  if (is_changed && steps_done == trainer.experiment().train.steps)
    fail<InputError>("{}: all {} steps are done, so that the changed head would not be trained: raise train.steps",
                     files.folder().string(), steps_done);
  load_loss_scale(trainer, files.identity());
  trainer.set_head_first_step(head == SavedHead::fresh
                                  ? trainer.parameters().optimizer_steps(steps_done)
                                  : saved_count(files.identity(), checkpoint_keys::head_begun, steps_done).value_or(0));
  naming_the_one_before(path_, steps_done, [&] { load_verified(files, wanted, trainer.rank()); });
  if (head == SavedHead::fresh) return {};
  std::vector<std::string> notes = comparison.differences(trainer.experiment(), head);
  if (compares_images && !comparison.has_same_image_sizes())
    notes.emplace_back("training images have other sizes in bytes than when the checkpoint was saved");
  for (const std::string& more : {kept_shards, grown_heads})
    if (!more.empty()) notes.push_back(more);
  return fmt::format("{}", fmt::join(notes, "; "));
}

}  // namespace heddle

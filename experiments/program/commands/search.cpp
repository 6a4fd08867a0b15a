#include <charconv>
#include <cmath>
#include <future>
#include <optional>

#include <CLI/CLI.hpp>

#include "experiments/export/embeddings.h"
#include "experiments/face_search/far_threshold.h"
#include "experiments/program/checkpoint_study.h"
#include "experiments/program/commands/command.h"
#include "experiments/program/commands/search/recorded_threshold.h"
#include "experiments/program/target_file.h"
#include "experiments/training/ranks/job_agreement.h"
#include "experiments/training/ranks/world_options.h"
#include "framework/description/printable.h"
#include "framework/description/text.h"
#include "framework/error.h"

namespace heddle {

namespace {

struct SearchCommand {
  std::filesystem::path checkpoint;  // a folder step-..., one of those, or a results folder
  std::filesystem::path gallery;
  std::vector<std::filesystem::path> probes;
  std::int64_t top = 5;
  std::string threshold;      // a number, auto, or empty: auto where there is one
  std::optional<double> far;  // of auto, by the gallery
  bool by_nearest_image = false;
  bool raw_weights = false;
  bool flips = false;
  bool json = false;
  std::filesystem::path out;      // .json or .csv; empty: none
  std::filesystem::path sheet;    // empty: none
  std::filesystem::path index;    // .npy; empty: none
  std::vector<std::string> sets;  // a.b=json
};

constexpr double default_far = 1e-3;

void check_far(const SearchCommand& command) {
  if (command.far && !(*command.far >= min_far && *command.far <= 0.5))
    fail<InputError>("--far: expected a rate from {} to 0.5, found {}", min_far, *command.far);
}

/// The threshold that the user gave as a number.
std::optional<double> given_threshold(const SearchCommand& command) {
  if (command.threshold.empty() || command.threshold == "auto") return {};
  const std::string& text = command.threshold;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !(value >= -1 && value <= 1))
    fail<InputError>("--threshold: expected auto or a similarity from -1 to 1, found {}", in_quotes(text));
  if (command.far) fail<InputError>("--far: is for --threshold auto");
  return value;
}

/// The experiment that the checkpoint was evaluated in, which --set cannot change.
Experiment evaluated_experiment(const FoundCheckpoint& checkpoint) {
  const Study<Experiment> study =
      read_study_text<Experiment>(checkpoint_experiment(checkpoint), checkpoint.folder.string());
  return study.variants.front().root;
}

/// By the evaluation of the checkpoint if it made embeddings as the search does, or by the gallery's own pairs; nothing
/// if there is neither. `is_averaged`: whether the search takes averages of weights.
std::optional<SearchThreshold> automatic_threshold(const SearchCommand& command, const FoundCheckpoint& checkpoint,
                                                   const Gallery& gallery, bool is_averaged, const Console& console) {
  std::string_view without = ", and no evaluation of the checkpoint is recorded";
  if (command.far) without = "";
  if (!command.far)
    if (auto recorded = recorded_threshold(checkpoint)) {
      // It depends on the weights, and on whether the embeddings of mirrored images were added.
      const Experiment evaluated = evaluated_experiment(checkpoint);
      const bool has_same_weights = evaluated.train.averages_weights == is_averaged;
      if (has_same_weights && evaluated.evaluation.flip == command.flips) return recorded;
      without = !has_same_weights ? ", and the recorded threshold is for a search with averaged weights"
                : command.flips   ? ", and the recorded threshold is for a search without --flip"
                                  : ", and the recorded threshold is for a search with --flip";
    }
  const double far = command.far.value_or(default_far);
  const std::optional<FarThreshold> found = threshold_at_far(gallery, far);
  if (!found) {
    const std::string why = fmt::format(
        "the gallery has fewer than {:.0f} pairs of images of two people for a FAR of {}{}: give "
        "--threshold or a larger --far",
        std::ceil(1 / far), far, without);
    if (!command.threshold.empty() || command.far) fail<InputError>("--threshold auto: {}", why);
    console.err << fmt::format("no verdicts: {}\n", why) << std::flush;
    return {};
  }
  std::string from =
      fmt::format("FAR {} on {} of the gallery", far, counted(found->impostors, "impostor pair", "impostor pairs"));
  if (found->tar)
    from += fmt::format(", which accepts {:.2f} % of {}", 100 * *found->tar,
                        counted(found->genuine, "genuine pair", "genuine pairs"));
  return SearchThreshold{.similarity = found->similarity, .from = std::move(from)};
}

/// The rows of the gallery, whose names give the same people again.
void write_index(const std::filesystem::path& path, const Gallery& gallery) {
  NpyWriter rows(path, gallery.rows().rows(), gallery.rows().dimension());
  AtomicFile names(names_beside(path));
  const People& people = gallery.people();
  for (std::int64_t i = 0; i < gallery.rows().rows(); ++i) {
    const bool is_person = gallery.way() == PersonRow::mean;
    names.write(escaped_line(is_person ? people.name(i) : people.image_name(i)) + "\n");
  }
  std::vector<float> buffer;
  for (std::int64_t begin = 0; begin < gallery.rows().rows(); begin += RowTable::block_rows)
    rows.append(gallery.rows().on_host(begin, std::min(begin + RowTable::block_rows, gallery.rows().rows()), buffer));
  rows.finish();
  names.finish();
  names.commit();
  rows.commit();
}

class SearchRun {
 public:
  SearchRun(const SearchCommand& command, const Console& console, Job* job)
      : command_(command), console_(console), job_(job) {}

  void run() {
    together(job_, [this] { open(); });
    if (is_first()) make_gallery();
    embed();
    if (!is_first()) return;
    // In a thread of its own, whose team of threads ends with it.
    std::async(std::launch::async, [this] {
      device_->backend().enter_thread();
      search();
    }).get();
    write();
  }

 private:
  bool is_first() const { return job_ == nullptr || job_->rank() == 0; }
  std::int64_t features() const { return embedding_size(model_->model()); }

  void open() {
    check_far(command_);
    given_ = given_threshold(command_);
    check_ending("--out", command_.out, {".json", ".csv"});
    check_ending("--sheet", command_.sheet, {".html"});
    check_ending("--index", command_.index, {".npy"});
    check_is_other(command_.gallery, "the gallery itself");
    for (const std::filesystem::path& probes : command_.probes) check_is_other(probes, "among the probes");
    if (is_first() && !command_.index.empty()) check_beside(command_.index, names_beside(command_.index));
    if (is_first())
      for (const std::filesystem::path& path : {command_.out, command_.sheet, command_.index}) check_writable(path);
    checkpoint_ = find_checkpoint(command_.checkpoint);
    Experiment experiment = checkpoint_study(checkpoint_, command_.sets, job_).variants.front().root;
    if (experiment.device == DeviceType::plan) fail<InputError>("device: expected cpu or cuda, found plan");
    if (command_.raw_weights) experiment.train.averages_weights = false;
    experiment.evaluation.sets.clear();
    experiment.evaluation.flip = command_.flips;
    model_.emplace(experiment, checkpoint_);
    gallery_images_ = open_searched_images(command_.gallery, features());
    for (const std::filesystem::path& path : command_.probes) probes_.push_back(open_searched_images(path, features()));
  }

  void check_is_other(const std::filesystem::path& input, const char* what) const {
    if (std::error_code differs; std::filesystem::equivalent(command_.index, input, differs))
      fail<InputError>("--index {}: is {}: expected another file", command_.index.string(), what);
  }

  void make_gallery() {
    const Experiment& experiment = model_->experiment();
    device_.emplace(make_backend(name_of(experiment.device), {.threads = threads_of_all(experiment)}));
    gallery_.emplace(gallery_images_, command_.by_nearest_image ? PersonRow::nearest_image : PersonRow::mean, *device_,
                     features());
  }
  /// The search uses the threads of all ranks that this process has.
  int threads_of_all(const Experiment& experiment) const {
    return threads_of(experiment, job_) * (job_ == nullptr ? ranks_of(experiment) : 1);
  }

  /// Embeds the images of the gallery and of the probes on all ranks, in one pass.
  void embed() {
    std::vector<std::string> files;
    if (!gallery_images_.embeddings) {
      const People people(gallery_images_);
      for (std::int64_t i = 0; i < people.images(); ++i)
        files.push_back(gallery_images_.files[static_cast<std::size_t>(people.image(i))]);
    }
    std::size_t of_gallery = files.size() * static_cast<std::size_t>(features());
    for (const SearchedImages& images : probes_) files.insert(files.end(), images.files.begin(), images.files.end());
    if (files.empty()) return;
    embed_files(*model_, files, false, job_, [&](std::span<const float> rows) {
      const std::size_t count = std::min(of_gallery, rows.size());
      gallery_->append(rows.first(count));
      of_gallery -= count;
      embedded_.insert(embedded_.end(), rows.begin() + static_cast<std::ptrdiff_t>(count), rows.end());
    });
  }

  void search() {
    if (gallery_images_.embeddings) gallery_->read_embeddings();
    std::vector<float> rows;
    std::span<const float> embedded(embedded_);
    for (const SearchedImages& images : probes_) {
      for (std::int64_t i = 0; i < images.names.size(); ++i) found_.probes.emplace_back(images.names[i]);
      const auto add = [&](std::span<const float> values) { rows.insert(rows.end(), values.begin(), values.end()); };
      const std::size_t begin = rows.size();
      if (images.embeddings) {
        read_embeddings(images, {}, add);
      } else {
        add(embedded.first(images.files.size() * static_cast<std::size_t>(features())));
        embedded = embedded.subspan(rows.size() - begin);
      }
      check_embeddings(images, std::span(rows).subspan(begin), features(), [](std::int64_t i) { return i; });
    }
    found_.nearest = gallery_->nearest(UnitRows(rows, found_.probes.size()), command_.top);
    if (given_)
      found_.threshold = SearchThreshold{.similarity = *given_};
    else
      found_.threshold =
          automatic_threshold(command_, checkpoint_, *gallery_, model_->experiment().train.averages_weights, console_);
  }

  void write() {
    found_.checkpoint = checkpoint_.folder.string();
    found_.steps = checkpoint_.steps;
    found_.gallery_path = gallery_images_.path;
    found_.gallery = &*gallery_;
    console_.out << (command_.json ? search_json(found_) : search_header(found_) + search_table(found_)) << std::flush;
    const std::filesystem::path& out = command_.out;
    if (!out.empty()) write_file_atomically(out, out.extension() == ".json" ? search_json(found_) : search_csv(found_));
    if (!command_.sheet.empty()) {
      AtomicFile file(command_.sheet);
      write_search_sheet(file, found_);
      file.commit();
    }
    if (!command_.index.empty()) write_index(command_.index, *gallery_);
  }

  const SearchCommand& command_;
  const Console& console_;
  Job* job_;
  std::optional<double> given_;
  FoundCheckpoint checkpoint_;
  std::optional<CheckpointModel> model_;
  SearchedImages gallery_images_;
  std::vector<SearchedImages> probes_;
  std::vector<float> embedded_;  // of the probes that are images
  std::optional<Device> device_;
  std::optional<Gallery> gallery_;
  FoundPeople found_{};
};

}  // namespace

void add_search(CLI::App& app, CommandCall& call) {
  const auto command = std::make_shared<SearchCommand>();
  add_checkpoint_option(app, command->checkpoint);
  app.add_option("GALLERY", command->gallery,
                 "a folder with a folder of images for each person, or with images; or a .npy file that embed wrote, "
                 "with the names of its rows in the .txt beside it")
      ->required();
  app.add_option("PROBES", command->probes, "images, folders of images, or .npy files that embed wrote")->required();
  take_integers(
      app.add_option("--top", command->top, "the number of nearest people to list for each probe (default: 5)"), 1,
      1000);
  app.add_option("--threshold", command->threshold,
                 "the lowest similarity of a match, from -1 to 1; auto: the threshold that the evaluation of the "
                 "checkpoint found with the same --flip, or else one computed from pairs of gallery images "
                 "(default: auto, but no verdicts where neither can be found)");
  app.add_option("--far", command->far,
                 "compute the threshold from pairs of gallery images at this false accept rate, from 0.000001 to 0.5 "
                 "(default: 0.001)");
  app.add_flag("--nearest-image", command->by_nearest_image,
               "compare with each person's nearest image, instead of the mean of the normalised embeddings");
  app.add_flag("--flip", command->flips, "add the embedding of the mirrored image, as embed --flip does");
  add_raw_weights_option(app, command->raw_weights);
  app.add_flag("--json", command->json, "print the results as JSON instead of the table");
  app.add_option("--out", command->out, "also write the results to FILE.json or FILE.csv");
  app.add_option("--sheet", command->sheet, "also write a page with the probes beside the people found, FILE.html");
  app.add_option("--index", command->index,
                 "also write the rows of the gallery to FILE.npy, with their names in FILE.txt: a gallery again");
  add_set_option(app, command->sets).description("override one key of the checkpoint's experiment, as in mesh.dp=2");
  app.callback([&call, command] { SearchRun(*command, call.console, call.join()).run(); });
}

}  // namespace heddle

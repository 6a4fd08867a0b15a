#include "experiments/data/files/image_folder.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <utility>

#include "experiments/data/files/class_weights.h"
#include "experiments/data/files/file_images.h"
#include "experiments/data/files/folder_people.h"
#include "experiments/data/files/name_pattern.h"
#include "experiments/data/files/people_list.h"
#include "framework/description/describe.h"
#include "framework/description/text.h"
#include "framework/error.h"

namespace heddle {
namespace {

std::int64_t files_of(const FolderPerson& person) {
  return static_cast<std::int64_t>(person.files.size());
}

/// Divides each person's files between training and testing.
class Splitter {
 public:
  explicit Splitter(const ImageFolderConfig& config) : config_(config), weights_(config.class_weights) {
    files_.title = fmt::format("image folder \"{}\"", config.path);
    files_.root = config.path;
  }

  FileSet split() {
    if (config_.split == FolderSplit::people)
      split_by_people();
    else
      split_each();
    weights_.finish(files_.title, files_.notes);
    return std::move(files_);
  }

 private:
  /// The split that each person's images belong to.
  using Roles = std::unordered_map<std::string, Split>;

  void split_each() {
    std::vector<FolderPerson> people = list_people(
        config_, [](std::string_view) { return true; }, files_.notes);
    if (people.empty())
      fail<InputError>("{}: expected {}, found none", files_.title,
                       config_.pattern.empty() ? "one folder for each person"
                                               : fmt::format("images whose names fit \"{}\"", config_.pattern));
    leave_out_rare(people);
    for (const FolderPerson& person : people) {
      if (config_.split == FolderSplit::number)
        add_by_number(person);
      else
        add_by_share(person);
    }
    for (const FolderPerson& person : people) files_.names.push_back(person.name);
    files_.classes = static_cast<std::int64_t>(people.size());
  }

  void split_by_people() {
    const std::vector<ListedPerson> train = read_people(config_.people);
    std::vector<ListedPerson> test;
    if (!config_.test_people.empty()) test = read_people(config_.test_people);
    Roles roles;
    for (const ListedPerson& person : train) roles.emplace(person.name, Split::train);
    for (const ListedPerson& person : test)
      if (!roles.emplace(person.name, Split::test).second)
        fail<InputError>("{}: line {}: \"{}\" is also in {}", config_.test_people, person.line, person.name,
                         config_.people);
    const auto is_listed = [&](std::string_view name) {
      weights_.accept(name);  // one file of weights may serve several lists
      return roles.contains(std::string(name));
    };
    std::vector<FolderPerson> people = list_people(config_, is_listed, files_.notes);
    check_listed(config_.people, train, people);
    check_listed(config_.test_people, test, people);
    leave_out_rare(people);
    for (const Split split : {Split::train, Split::test}) {
      std::int64_t& label = next_label_;
      for (const FolderPerson& person : people) {
        if (roles.at(person.name) != split) continue;
        const double weight = split == Split::train ? weights_.of(person.name) : 1;
        for (const std::string& file : person.files) samples(split).add(file, label, weight);
        if (split == Split::train) files_.names.push_back(person.name);
        ++label;
      }
      if (split == Split::train) files_.classes = label;
    }
  }

  /// A listed person who is not in the folder is an error; a different number of images is only reported.
  void check_listed(const std::string& list, const std::vector<ListedPerson>& listed,
                    const std::vector<FolderPerson>& people) {
    std::unordered_map<std::string_view, std::int64_t> found;
    for (const FolderPerson& person : people) found.emplace(person.name, files_of(person));
    std::int64_t others = 0;
    std::string example;
    for (const ListedPerson& person : listed) {
      const auto there = found.find(person.name);
      if (there == found.end())
        fail<InputError>("{}: line {}: \"{}\" is not in {}", list, person.line, person.name, files_.title);
      if (!person.images || *person.images == there->second) continue;
      if (others++ == 0)
        example = fmt::format("\"{}\" has {} instead of {}", person.name, counted(there->second, "image", "images"),
                              *person.images);
    }
    if (others > 0)
      files_.notes.push_back(fmt::format("{}: {} a different number of images in {}: {}{}", list,
                                         counted(others, "person has", "people have"), files_.title, example,
                                         others == 1 ? "" : ", for example"));
  }

  void leave_out_rare(std::vector<FolderPerson>& people) {
    for (const FolderPerson& person : people)
      if (config_.min_images == 0 && person.files.empty())
        fail<InputError>("{}: no PGM, PPM, PNG or JPEG file in it; in an experiment, data.min_images: 1 leaves it out",
                         title_of(config_, person));
    std::int64_t images = 0;
    for (const FolderPerson& person : people) weights_.accept(person.name);
    const auto is_rare = [&](const FolderPerson& person) {
      if (files_of(person) >= config_.min_images) return false;
      images += files_of(person);
      return true;
    };
    const auto rare = static_cast<std::int64_t>(std::erase_if(people, is_rare));
    if (rare == 0) return;
    files_.notes.push_back(note_of_rare(files_.title, rare, config_.min_images, images));
  }

  void add_by_number(const FolderPerson& person) {
    const std::int64_t files = files_of(person);
    const std::int64_t train = config_.train_per_identity;
    if (train == 0) return add(person, files, files);
    const std::int64_t test = std::max<std::int64_t>(config_.test_per_identity, 1);
    if (files < train + test)
      fail<InputError>("{}: {}, but {} for training (train_per_identity) and {}{} for testing are needed",
                       title_of(config_, person), counted(files, "image", "images"), train,
                       config_.test_per_identity == 0 ? "at least " : "", test);
    add(person, train, config_.test_per_identity == 0 ? files : train + test);
  }

  void add_by_share(const FolderPerson& person) {
    const std::int64_t files = files_of(person);
    const auto train = static_cast<std::int64_t>(std::llround(config_.train_share * static_cast<double>(files)));
    add(person, std::max<std::int64_t>(train, 1), files);
  }

  /// The first `train` files are for training, the others before `end` for testing.
  void add(const FolderPerson& person, std::int64_t train, std::int64_t end) {
    const double weight = weights_.of(person.name);
    for (std::int64_t i = 0; i < end; ++i) {
      const Split split = i < train ? Split::train : Split::test;
      samples(split).add(person.files[static_cast<std::size_t>(i)], next_label_, split == Split::train ? weight : 1);
    }
    ++next_label_;
  }

  SampleList& samples(Split split) { return split == Split::train ? files_.train : files_.test; }

  const ImageFolderConfig& config_;
  FileSet files_{};
  ClassWeights weights_;
  std::int64_t next_label_ = 0;
};

void needs_split(const char* key, bool is_given, FolderSplit split, FolderSplit wanted) {
  if (is_given && split != wanted)
    fail<InputError>("data.{}: has no effect with split \"{}\": it belongs to \"{}\"", key, name_of(split),
                     name_of(wanted));
}

}  // namespace

void describe(Describer& d, ImageFolderConfig& c) {
  d.field(required("path"), c.path, "folder that holds one folder of PGM, PPM, PNG or JPEG files for each person");
  describe_image(d, c.image);
  d.field("pattern", c.pattern,
          "for one folder that holds the files of all people: the form of their names, with {identity} for the "
          "person, * for any characters and # for a digit, as in {identity}_*");
  choice(d, "split", c.split,
         "what decides which images are for training: their number, their share, or lists of the people");
  d.field("train_per_identity", c.train_per_identity, between(0, 1e6),
          "split number: how many files of each person, in natural order, are for training; 0: all");
  d.field("test_per_identity", c.test_per_identity, between(0, 1e6),
          "split number: how many of the rest are for testing; 0: all of them");
  d.field("train_share", c.train_share, between(0, 1),
          "split share: the share of each person's files, in natural order, that is for training, at least one; the "
          "others are for testing");
  d.field("people", c.people,
          "split people: file with the people whose images are for training, in LFW's format or one name in each line");
  d.field("test_people", c.test_people, "split people: file with the people whose images are for testing; empty: none");
  describe_class_weights(d, c.class_weights);
  d.field("min_images", c.min_images, between(0, 1e6),
          "people with fewer images are left out; 0: a person without images is an error");
  describe_on_broken(d, c.on_broken);
}

void check(const ImageFolderConfig& c) {
  needs_split("train_per_identity", c.train_per_identity > 0, c.split, FolderSplit::number);
  needs_split("test_per_identity", c.test_per_identity > 0, c.split, FolderSplit::number);
  needs_split("train_share", c.train_share > 0, c.split, FolderSplit::share);
  needs_split("people", !c.people.empty(), c.split, FolderSplit::people);
  needs_split("test_people", !c.test_people.empty(), c.split, FolderSplit::people);
  if (c.test_per_identity > 0 && c.train_per_identity == 0)
    fail<InputError>(
        "data.test_per_identity: expected train_per_identity beside it: without it all images are for training");
  if (c.split == FolderSplit::share && c.train_share == 0)
    fail<InputError>("data.train_share: expected a number > 0 with split \"share\"");
  if (c.split == FolderSplit::people && c.people.empty())
    fail<InputError>("data.people: expected a file with split \"people\"");
  if (!c.pattern.empty()) (void)NamePattern(c.pattern);
}

FileSet list_files(const ImageFolderConfig& config) {
  FileSet files = Splitter(config).split();
  expect_people(files, 1, config.min_images);
  return files;
}

std::unique_ptr<const Dataset> open_data(const ImageFolderConfig& config, const Preprocessing& preprocessing,
                                         RandomKey /*seed*/) {
  FileSet files = list_files(config);
  expect_people(files, 2, config.min_images);
  return std::make_unique<FileImages>(std::move(files), preprocessing, config.on_broken);
}

}  // namespace heddle

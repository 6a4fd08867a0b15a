#include "experiments/data/files/image_list.h"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "experiments/data/files/class_weights.h"
#include "experiments/data/files/file_images.h"
#include "experiments/data/files/list_lines.h"
#include "experiments/data/files/natural_order.h"
#include "framework/description/describe.h"
#include "framework/error.h"

namespace heddle {
namespace {

/// The labels as the lists write them, numbered in the order in which they first occur.
class LabelNames {
 public:
  std::int64_t number_of(std::string_view name) {
    const auto [place, is_new] = numbers_.try_emplace(std::string(name), size());
    if (is_new) {
      names_.push_back(&place->first);
      are_numbers_ = are_numbers_ && name.find_first_not_of("0123456789") == std::string_view::npos;
    }
    return place->second;
  }
  std::int64_t size() const { return static_cast<std::int64_t>(names_.size()); }
  /// Whether all of them are decimal numbers.
  bool are_numbers() const { return are_numbers_; }
  /// The text of a label. If all labels are numbers, it has no leading zeros, so that 01 and 1 are one label.
  std::string_view name(std::int64_t number) const {
    const std::string_view name = *names_[static_cast<std::size_t>(number)];
    return are_numbers_ ? name.substr(std::min(name.find_first_not_of('0'), name.size() - 1)) : name;
  }

 private:
  std::unordered_map<std::string, std::int64_t> numbers_;
  std::vector<const std::string*> names_;  // keys of the map, whose addresses do not change
  bool are_numbers_ = true;
};

/// A person in the lists. Several spellings of one number, such as 1 and 01, are one person.
struct ListedIdentity {
  std::string_view name;
  std::vector<std::int64_t> names{};
  std::int64_t training_images = 0;
};

class ListedImages {
 public:
  explicit ListedImages(const ImageListConfig& config) : config_(config) {
    files_.title = fmt::format("image list \"{}\"", config.train);
    files_.root = config.root.empty() ? std::filesystem::path(config.train).parent_path().string() : config.root;
  }

  FileSet read() {
    const SampleList train = samples_of(config_.train, config_.weight_column);
    const SampleList test = config_.test.empty() ? SampleList() : samples_of(config_.test, "");
    const std::vector<std::int64_t> labels = labels_of_names(train);
    for (const auto& [from, to] : {std::pair(&train, &files_.train), std::pair(&test, &files_.test)})
      for (std::int64_t i = 0; i < from->size(); ++i)
        if (const std::int64_t label = labels[static_cast<std::size_t>(from->label(i))]; label != left_out)
          to->add(from->path(i), label, from->weight(i) * weight_of(label));
    return std::move(files_);
  }

 private:
  static constexpr std::int64_t left_out = -1;

  /// The samples of a list, labelled with the numbers that `names_` gives.
  SampleList samples_of(const std::string& list, const std::string& weight_column) {
    SampleList samples;
    read_list(list, {config_.path_column, config_.label_column, weight_column}, [&](const ListedSample& sample) {
      const double weight = weight_column.empty() ? 1 : read_weight(list, sample.line, sample.weight);
      samples.add(sample.path, names_.number_of(sample.label), weight);
    });
    if (samples.size() == 0) fail<InputError>("{}: there is no image in it", list);
    return samples;
  }

  /// The people of both lists in natural order.
  std::vector<ListedIdentity> identities(const SampleList& train) const {
    std::vector<std::int64_t> images(static_cast<std::size_t>(names_.size()));
    for (std::int64_t i = 0; i < train.size(); ++i) ++images[static_cast<std::size_t>(train.label(i))];
    std::vector<std::int64_t> order(images.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
      return names_.name(a) != names_.name(b) ? natural_less(names_.name(a), names_.name(b)) : a < b;
    });
    std::vector<ListedIdentity> people;
    for (const std::int64_t number : order) {
      if (people.empty() || people.back().name != names_.name(number)) people.push_back({names_.name(number)});
      people.back().names.push_back(number);
      people.back().training_images += images[static_cast<std::size_t>(number)];
    }
    return people;
  }

  std::vector<std::int64_t> labels_of_names(const SampleList& train) {
    std::vector<ListedIdentity> people = identities(train);
    ClassWeights weights(config_.class_weights,
                         names_.are_numbers() ? ClassWeights::Names::numbers : ClassWeights::Names::texts);
    for (const ListedIdentity& person : people) weights.accept(person.name);
    leave_out_rare(people);
    std::vector<std::int64_t> labels(static_cast<std::size_t>(names_.size()), left_out);
    std::int64_t next = 0;
    for (const bool trains : {true, false}) {
      for (const ListedIdentity& person : people) {
        if ((person.training_images > 0) != trains) continue;
        for (const std::int64_t name : person.names) labels[static_cast<std::size_t>(name)] = next;
        if (trains) files_.names.emplace_back(person.name);
        if (trains && !weights.is_empty()) class_weights_.push_back(weights.of(person.name));
        ++next;
      }
      if (trains) files_.classes = next;
    }
    report_renumbering(people);
    weights.finish(files_.title, files_.notes);
    return labels;
  }

  /// The weight of the person with a label; 1 for people who are only tested.
  double weight_of(std::int64_t label) const {
    const auto i = static_cast<std::size_t>(label);
    return i < class_weights_.size() ? class_weights_[i] : 1;
  }

  void leave_out_rare(std::vector<ListedIdentity>& people) {
    std::int64_t images = 0;
    const auto rare = static_cast<std::int64_t>(std::erase_if(people, [&](const ListedIdentity& person) {
      if (person.training_images == 0 || person.training_images >= config_.min_images) return false;
      images += person.training_images;
      return true;
    }));
    if (rare > 0) files_.notes.push_back(note_of_rare(files_.title, rare, config_.min_images, images));
  }

  /// Adds a note if labels that are numbers change.
  void report_renumbering(const std::vector<ListedIdentity>& people) {
    if (!names_.are_numbers()) return;
    std::string_view last;
    for (const ListedIdentity& person : people)
      if (person.training_images > 0) last = person.name;
    if (last != std::to_string(files_.classes - 1))
      files_.notes.push_back(fmt::format("{}: {} labels up to {} become 0 to {}, in the same order", files_.title,
                                         files_.classes, last, files_.classes - 1));
  }

  const ImageListConfig& config_;
  FileSet files_{};
  LabelNames names_;
  std::vector<double> class_weights_;  // empty: all are 1
};

}  // namespace

void describe(Describer& d, ImageListConfig& c) {
  d.field(required("train"), c.train,
          "file with a path and a label in each line, separated by a blank or a tab, or a CSV file");
  d.field("test", c.test, "the same for testing; empty: no images are for testing");
  d.field("root", c.root, "folder of relative paths; empty: the folder of the file in train");
  describe_image(d, c.image);
  d.field("path_column", c.path_column,
          "CSV: the name of the column of paths, as in line 1; empty: the lists are not CSV");
  d.field("label_column", c.label_column, "CSV: the name of the column of labels");
  d.field("weight_column", c.weight_column,
          "CSV: the name of the training list's column of weights, by which the losses of its images are multiplied; "
          "empty: all have 1");
  describe_class_weights(d, c.class_weights);
  d.field("min_images", c.min_images, between(0, 1e6),
          "people with fewer training images are left out of training and testing");
  describe_on_broken(d, c.on_broken);
}

void check(const ImageListConfig& c) {
  if (c.path_column.empty() != c.label_column.empty())
    fail<InputError>("data.{}: expected the name of a column: a CSV file needs path_column and label_column",
                     c.path_column.empty() ? "path_column" : "label_column");
  if (!c.weight_column.empty() && c.path_column.empty())
    fail<InputError>("data.weight_column: only a CSV file, with path_column and label_column, has weights of images");
}

FileSet list_files(const ImageListConfig& config) {
  FileSet files = ListedImages(config).read();
  expect_people(files, 1, config.min_images);
  return files;
}

std::unique_ptr<const Dataset> open_data(const ImageListConfig& config, const Preprocessing& preprocessing,
                                         RandomKey /*seed*/) {
  FileSet files = list_files(config);
  expect_people(files, 2, config.min_images);
  return std::make_unique<FileImages>(std::move(files), preprocessing, config.on_broken);
}

}  // namespace heddle

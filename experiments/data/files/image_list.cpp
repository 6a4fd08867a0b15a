#include "experiments/data/files/image_list.h"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "experiments/data/files/file_images.h"
#include "experiments/data/files/list_lines.h"
#include "experiments/data/files/natural_order.h"
#include "framework/description/describe.h"
#include "framework/error.h"

namespace heddle {
namespace {

/// The labels of lists as they are written, numbered as they come.
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
  /// Numbers without leading zeros: 01 and 1 are one label, unless others are names.
  std::string_view name(std::int64_t number) const {
    const std::string_view name = *names_[static_cast<std::size_t>(number)];
    return are_numbers_ ? name.substr(std::min(name.find_first_not_of('0'), name.size() - 1)) : name;
  }

 private:
  std::unordered_map<std::string, std::int64_t> numbers_;
  std::vector<const std::string*> names_;  // keys of the map, which stay where they are
  bool are_numbers_ = true;
};

/// Someone whom lists name. Several spellings of one number are one person.
struct ListedIdentity {
  std::string_view name;
  std::vector<std::int64_t> names{};
  std::int64_t training_images = 0;
};

class ListReader {
 public:
  explicit ListReader(const ImageListConfig& config) : config_(config) {
    files_.title = fmt::format("image list \"{}\"", config.train);
    files_.root = config.root.empty() ? std::filesystem::path(config.train).parent_path().string() : config.root;
  }

  FileSet read() {
    const SampleList train = samples_of(config_.train);
    const SampleList test = config_.test.empty() ? SampleList() : samples_of(config_.test);
    const std::vector<std::int64_t> labels = labels_of_names(train);
    for (const auto& [from, to] : {std::pair(&train, &files_.train), std::pair(&test, &files_.test)})
      for (std::int64_t i = 0; i < from->size(); ++i)
        if (const std::int64_t label = labels[static_cast<std::size_t>(from->label(i))]; label != left_out)
          to->add(from->path(i), label);
    return std::move(files_);
  }

 private:
  static constexpr std::int64_t left_out = -1;

  /// The samples of a list, with the numbers of their labels' names.
  SampleList samples_of(const std::string& list) {
    SampleList samples;
    read_list(list, {config_.path_column, config_.label_column},
              [&](std::int64_t /*line*/, std::string_view path, std::string_view label) {
                samples.add(path, names_.number_of(label));
              });
    if (samples.size() == 0) fail<InputError>("{}: no image in it", list);
    return samples;
  }

  /// In natural order.
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
    leave_out_rare(people);
    std::vector<std::int64_t> labels(static_cast<std::size_t>(names_.size()), left_out);
    std::int64_t next = 0;
    for (const bool trains : {true, false}) {
      for (const ListedIdentity& person : people) {
        if ((person.training_images > 0) != trains) continue;
        for (const std::int64_t name : person.names) labels[static_cast<std::size_t>(name)] = next;
        ++next;
      }
      if (trains) files_.classes = next;
    }
    if (files_.classes < 2)
      fail<InputError>("{}: {} to train; at least 2 are needed to tell apart", files_.title,
                       counted(files_.classes, "person", "people"));
    say_numbers(people);
    return labels;
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

  /// Says so where numbers do not stay what they are.
  void say_numbers(const std::vector<ListedIdentity>& people) {
    if (!names_.are_numbers()) return;
    std::string_view last;
    for (const ListedIdentity& person : people)
      if (person.training_images > 0) last = person.name;
    if (last != std::to_string(files_.classes - 1))
      files_.notes.push_back(fmt::format("{}: {} labels up to {} become 0 to {}, in their order", files_.title,
                                         files_.classes, last, files_.classes - 1));
  }

  const ImageListConfig& config_;
  FileSet files_{};
  LabelNames names_;
};

}  // namespace

void describe(Describer& d, ImageListConfig& c) {
  d.field(required("train"), c.train,
          "file with a path and a label in each line, with a blank, a tab or the commas of CSV between them");
  d.field("test", c.test, "the same for testing; empty: no images are for testing");
  d.field("root", c.root, "folder that relative paths begin at; empty: that of the file in train");
  describe_image(d, c.image);
  d.field("path_column", c.path_column, "in CSV: the column with the paths, as line 1 names it; empty: no CSV");
  d.field("label_column", c.label_column, "in CSV: the column with the labels");
  d.field("min_images", c.min_images, between(0, 1e6),
          "people with fewer training images are left out, of training and of testing");
  describe_on_broken(d, c.on_broken);
}

void check(const ImageListConfig& c) {
  if (c.path_column.empty() != c.label_column.empty())
    fail<InputError>("data.{}: expected the name of a column: a CSV file needs path_column and label_column",
                     c.path_column.empty() ? "path_column" : "label_column");
}

std::unique_ptr<const Dataset> open_data(const ImageListConfig& config, const Preprocessing& preprocessing,
                                         RandomKey /*seed*/) {
  return std::make_unique<FileImages>(ListReader(config).read(), preprocessing, config.on_broken);
}

}  // namespace heddle

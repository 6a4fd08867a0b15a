#include "experiments/data/image_folder.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <system_error>

#include "experiments/data/image.h"
#include "experiments/data/parallel_for.h"
#include "framework/description/describe.h"
#include "framework/error.h"

namespace heddle {
namespace {

namespace fs = std::filesystem;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// The run of digits at the front of `text`, without leading zeros; cut off from `text`.
std::string_view take_number(std::string_view& text) {
  std::size_t end = 0;
  while (end < text.size() && is_digit(text[end])) ++end;
  std::string_view number = text.substr(0, end);
  text.remove_prefix(end);
  number.remove_prefix(std::min(number.find_first_not_of('0'), number.size()));
  return number;
}

bool is_image_name(const std::string& name) {
  static constexpr std::array<std::string_view, 6> endings = {".pgm", ".ppm", ".pnm", ".png", ".jpg", ".jpeg"};
  std::string ending = fs::path(name).extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::find(endings.begin(), endings.end(), ending) != endings.end();
}

/// Names in `folder` that are not hidden and pass `wanted`, in natural order.
template <class Wanted>
std::vector<std::string> list(const std::string& folder, const Wanted& wanted) {
  std::error_code error;
  std::vector<std::string> names;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    std::string name = entry->path().filename().string();
    if (name.front() != '.' && wanted(*entry, name)) names.push_back(std::move(name));
  }
  if (error) fail<InputError>("image folder \"{}\": {}", folder, error.message());
  std::sort(names.begin(), names.end(), natural_less);
  return names;
}

}  // namespace

void describe(Describer& d, ImageFolderConfig& c) {
  d.field(required("path"), c.path, "folder that holds one folder of PGM, PPM, PNG or JPEG files for each identity");
  describe_image(d, c.image);
  d.field(required("train_per_identity"), c.train_per_identity, between(1, 1e6),
          "how many files of each identity, in natural order, are for training");
  d.field("test_per_identity", c.test_per_identity, between(0, 1e6), "how many of the rest are for testing; 0: all");
}

std::unique_ptr<const Dataset> open_data(const ImageFolderConfig& config, const Preprocessing& preprocessing,
                                         RandomKey /*seed*/) {
  return std::make_unique<ImageFolder>(config, preprocessing);
}

bool natural_less(std::string_view a, std::string_view b) {
  std::string_view rest_a = a;
  std::string_view rest_b = b;
  while (!rest_a.empty() && !rest_b.empty()) {
    if (is_digit(rest_a.front()) && is_digit(rest_b.front())) {
      const std::string_view number_a = take_number(rest_a);
      const std::string_view number_b = take_number(rest_b);
      if (number_a.size() != number_b.size()) return number_a.size() < number_b.size();
      if (number_a != number_b) return number_a < number_b;
    } else {
      if (rest_a.front() != rest_b.front()) return rest_a.front() < rest_b.front();
      rest_a.remove_prefix(1);
      rest_b.remove_prefix(1);
    }
  }
  if (rest_a.empty() != rest_b.empty()) return rest_a.empty();
  return a < b;  // "1" and "01" are one number, yet two names
}

ImageFolder::ImageFolder(const ImageFolderConfig& config, Preprocessing preprocessing)
    : EncodedImages(std::move(preprocessing)), path_(config.path), train_per_identity_(config.train_per_identity) {
  list_identities();
  for (Identity& identity : identities_) list_files(identity, config.test_per_identity);
  probe();
}

void ImageFolder::list_identities() {
  std::error_code error;
  if (!fs::exists(path_, error)) fail<InputError>("image folder \"{}\": no such folder", path_);
  if (!fs::is_directory(path_, error)) fail<InputError>("image folder \"{}\": it is a file, not a folder", path_);
  for (std::string& name : list(path_, [](const fs::directory_entry&entry, const std::string&) {
         std::error_code ignored;
         return entry.is_directory(ignored);
       }))
    identities_.push_back({.folder = std::move(name), .files = {}, .first_test = 0});
  if (identities_.empty())
    fail<InputError>("image folder \"{}\": expected one folder for each identity, found none", path_);
  if (identities_.size() == 1)
    fail<InputError>("image folder \"{}\": a single identity, \"{}\"; at least 2 are needed to tell apart", path_,
                     identities_.front().folder);
}

void ImageFolder::list_files(Identity& identity, std::int64_t test_per_identity) {
  const std::string folder = (fs::path(path_) / identity.folder).string();
  identity.files =
      list(folder, [](const fs::directory_entry&, const std::string& name) { return is_image_name(name); });
  identity.first_test = test_size_;
  const auto files = static_cast<std::int64_t>(identity.files.size());
  if (files == 0) fail<InputError>("image folder \"{}\": no PGM, PPM, PNG or JPEG file in it", folder);
  const std::int64_t needed = train_per_identity_ + std::max<std::int64_t>(test_per_identity, 1);
  if (files < needed)
    fail<InputError>(
        "image folder \"{}\": {} image{}, but {} for training (train_per_identity) and {}{} for testing are needed",
        folder, files, files == 1 ? "" : "s", train_per_identity_, test_per_identity == 0 ? "at least " : "",
        needed - train_per_identity_);
  if (test_per_identity > 0) identity.files.resize(static_cast<std::size_t>(needed));
  test_size_ += static_cast<std::int64_t>(identity.files.size()) - train_per_identity_;
}

void ImageFolder::probe() const {
  const std::int64_t train = size(Split::train);
  const std::int64_t all = train + test_size_;
  parallel_for(all, [&](std::int64_t i) {
    const std::string file = i < train ? sample_name(Split::train, i) : sample_name(Split::test, i - train);
    if (all <= decoded_at_start) {
      load_image(file);
    } else {
      load_image_header(file);
    }
  });
}

std::int64_t ImageFolder::size(Split split) const {
  return split == Split::train ? classes() * train_per_identity_ : test_size_;
}

ImageFolder::Place ImageFolder::place(Split split, std::int64_t index) const {
  if (index < 0 || index >= size(split))
    fail("image folder \"{}\": sample {} of {} was asked for", path_, index, size(split));
  if (split == Split::train) return {.identity = index / train_per_identity_, .file = index % train_per_identity_};
  const auto after = std::upper_bound(identities_.begin(), identities_.end(), index,
                                      [](std::int64_t i, const Identity& identity) { return i < identity.first_test; });
  const Identity& identity = *std::prev(after);
  return {.identity = std::prev(after) - identities_.begin(),
          .file = train_per_identity_ + index - identity.first_test};
}

std::string ImageFolder::path_of(const Place& place) const {
  const Identity& identity = identities_[static_cast<std::size_t>(place.identity)];
  return (fs::path(path_) / identity.folder / identity.files[static_cast<std::size_t>(place.file)]).string();
}

std::int64_t ImageFolder::label(Split split, std::int64_t index) const {
  return place(split, index).identity;
}

std::string ImageFolder::sample_name(Split split, std::int64_t index) const {
  return path_of(place(split, index));
}

std::span<const std::uint8_t> ImageFolder::encoded(Split split, std::int64_t index,
                                                   std::vector<std::uint8_t>& buffer) const {
  buffer = read_image_file(sample_name(split, index));
  return buffer;
}

}  // namespace heddle

#include "experiments/training/evaluation/files/bin_file.h"

#include <optional>

#include "framework/description/printable.h"
#include "framework/error.h"
#include "framework/files/atomic_file.h"

namespace heddle {

namespace {

constexpr std::uint64_t max_bin_file = std::uint64_t{1} << 36;

bool is_sequence(const PickleValue& value) {
  return value.kind == PickleKind::list || value.kind == PickleKind::tuple;
}

/// The number of a label, which should be 0 or 1; nothing if the value is not a number.
std::optional<std::int64_t> as_label(const PickleValue& value) {
  const bool is_number = value.kind == PickleKind::boolean || value.kind == PickleKind::integer;
  return is_number ? std::optional(value.number) : std::nullopt;
}

}  // namespace

BinFile::BinFile(const std::filesystem::path& path) : path_(path.string()), text_(read_file(path, max_bin_file)) {
  check_is_pickle();
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(text_.data());
  pickle_ = std::make_unique<const Pickle>(std::span(bytes, text_.size()), path_);
  const PickleValue& root = pickle_->root();
  if (!is_sequence(root) || pickle_->items(root).size() != 2)
    fail<InputError>("{}: expected a pair of images and labels, got {}{}", path_, name_of(root.kind),
                     is_sequence(root) ? fmt::format(" of {}", pickle_->items(root).size()) : "");
  read_images(pickle_->items(root)[0]);
  read_labels(pickle_->items(root)[1]);
  if (pairs_.empty() || images_.size() != 2 * pairs_.size())
    fail<InputError>("{}: expected two images for each label, got {} images and {} labels", path_, images_.size(),
                     pairs_.size());
}

void BinFile::check_is_pickle() const {
  if (text_.empty()) fail<InputError>("{}: the file is empty", path_);
  // Protocols from 2 on begin with their number, and every pickle ends with the operation STOP.
  if (text_.front() == '\x80' || text_.back() == '.') return;
  constexpr std::size_t shown = 16;
  fail<InputError>(
      "{}: not a Python pickle, the format of verification sets such as InsightFace's lfw.bin: it begins with "
      "{}",
      path_, in_quotes(std::string_view(text_).substr(0, shown)));
}

std::string BinFile::image_name(std::int64_t i) const {
  return fmt::format("{}, image {}", path_, i);
}

void BinFile::read_images(const PickleValue& list) {
  if (!is_sequence(list)) fail<InputError>("{}: expected a list of images, got {}", path_, name_of(list.kind));
  for (const PickleValue& value : pickle_->items(list)) {
    const std::string name = image_name(images());
    if (value.kind == PickleKind::bytes) {
      images_.push_back(pickle_->bytes(value));
      continue;
    }
    if (value.kind != PickleKind::array)
      fail<InputError>("{}: expected bytes or an array of u1, got {}", name, name_of(value.kind));
    const PickledArray& array = pickle_->array(value);
    if (array.type.name != "u1" || array.shape.size() != 1)
      fail<InputError>("{}: expected an encoded image as a vector of u1, got an array of {} with {} axes", name,
                       array.type.name.empty() ? "nothing" : array.type.name, array.shape.size());
    images_.push_back(array.bytes);
  }
}

void BinFile::read_labels(const PickleValue& list) {
  const auto add = [&](std::optional<std::int64_t> label) {
    const auto i = static_cast<std::int64_t>(pairs_.size());
    if (label != 0 && label != 1) fail<InputError>("{}: label {}: expected True or False", path_, i);
    pairs_.push_back({.first = 2 * i, .second = 2 * i + 1, .same = label == 1});
  };
  if (is_sequence(list)) {
    for (const PickleValue& value : pickle_->items(list)) add(as_label(value));
    return;
  }
  if (list.kind != PickleKind::array)
    fail<InputError>("{}: expected a list of labels, got {}", path_, name_of(list.kind));
  const PickledArray& array = pickle_->array(list);
  if (array.type.bytes != 1 || array.shape.size() != 1)
    fail<InputError>("{}: expected labels as a vector of b1 or u1, got an array of {} with {} axes", path_,
                     array.type.name.empty() ? "nothing" : array.type.name, array.shape.size());
  for (const std::uint8_t label : array.bytes) add(label);
}

}  // namespace heddle

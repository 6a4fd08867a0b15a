#include "experiments/program/data/pack.h"

#include <algorithm>
#include <map>
#include <system_error>
#include <utility>

#include "experiments/data/codecs/image_codecs.h"
#include "experiments/program/target_file.h"
#include "framework/error.h"
#include "framework/scalars/permutation.h"

namespace heddle {

namespace {

namespace fs = std::filesystem;

constexpr int quality = 95;

/// An image as it goes into the file, or why it is broken.
struct Prepared {
  std::vector<std::uint8_t> jpeg;
  int height = 0;
  int width = 0;
  bool is_encoded = false;
  std::optional<std::string> error;
};

Prepared prepare(const StoredImages& images, std::int64_t i) {
  const std::string name = images.name(i);
  Prepared prepared;
  try {
    std::vector<std::uint8_t> buffer;
    const std::span<const std::uint8_t> bytes = images.encoded(i, buffer);
    const Image image = decode_image(bytes, name);
    prepared.height = image.height;
    prepared.width = image.width;
    prepared.is_encoded = image_format(bytes, name) != ImageFormat::jpeg;
    prepared.jpeg = prepared.is_encoded ? encode_jpeg(image, quality) : std::vector(bytes.begin(), bytes.end());
  } catch (const InputError& error) {
    prepared.error = error.what();
  }
  return prepared;
}

/// One more than the largest label.
std::int64_t classes_of(const StoredImages& images) {
  std::int64_t classes = images.classes();
  for (std::int64_t i = 0; i < images.size(); ++i) classes = std::max(classes, images.label(i) + 1);
  return classes;
}

/// Whether the file `property` is to be written.
bool needs_property(const fs::path& target, std::int64_t classes, bool replace) {
  std::error_code unknown;
  if (replace || !fs::exists(fs::symlink_status(target, unknown))) {
    check_target(target, replace);
    return true;
  }
  const std::int64_t announced = read_face_property(target).classes;
  if (announced != classes)
    fail<InputError>(
        "{}: announces {} classes for the .rec files beside it, and these images have {}; pack them into another "
        "folder, or replace it with --force if those files are not needed",
        target.string(), announced, classes);
  return false;
}

class Packer {
 public:
  Packer(const StoredImages& images, const fs::path& out, const PackOptions& options)
      : images_(images),
        options_(options),
        writer_(out, options.shuffle ? RecordLayout::plain : RecordLayout::identities),
        has_images_(static_cast<std::size_t>(classes_of(images))) {
    for (const BrokenImage& image : images.broken()) leave_out(image, image.text());
  }

  void add(std::int64_t i, const Prepared& prepared) {
    if (prepared.error) return leave_out(broken_image(images_.name(i), *prepared.error), *prepared.error);
    writer_.add(images_.label(i), prepared.jpeg);
    has_images_[static_cast<std::size_t>(images_.label(i))] = true;
    ++sizes_[{prepared.height, prepared.width}];
    packed_.encoded += prepared.is_encoded ? 1 : 0;
  }

  Packed commit(bool with_property) {
    const auto broken = static_cast<std::int64_t>(packed_.broken.size());
    if (broken > 0) check_share_of_broken(broken, broken + writer_.images(), packed_.broken.front().text());
    if (writer_.images() == 0) fail<InputError>("{}: there is no image to pack", images_.title());
    const auto& [height, width] = std::max_element(sizes_.begin(), sizes_.end(), [](const auto& a, const auto& b) {
                                    return a.second < b.second;
                                  })->first;
    packed_.images = writer_.images();
    packed_.people = std::count(has_images_.begin(), has_images_.end(), true);
    packed_.property = {.classes = static_cast<std::int64_t>(has_images_.size()), .height = height, .width = width};
    writer_.commit(with_property ? std::optional(packed_.property) : std::nullopt);
    packed_.bytes = writer_.bytes();
    return std::move(packed_);
  }

 private:
  void leave_out(const BrokenImage& image, const std::string& message) {
    if (!options_.skip_broken) fail<InputError>("{}", message);
    packed_.broken.push_back(image);
  }

  const StoredImages& images_;
  const PackOptions& options_;
  FaceWriter writer_;
  std::vector<bool> has_images_;                         // by label
  std::map<std::pair<int, int>, std::int64_t> sizes_{};  // height and width: how many images
  Packed packed_{};
};

}  // namespace

Packed pack_images(const StoredImages& images, const fs::path& out, const PackOptions& options,
                   const OnImages& on_images) {
  check_target(out, options.replace);
  check_target(fs::path(out).replace_extension(".idx"), options.replace);
  const bool with_property = needs_property(out.parent_path() / "property", classes_of(images), options.replace);
  Packer packer(images, out, options);
  const std::int64_t size = images.size();
  const Permutation shuffled(size, {options.seed}, Purpose::shuffle, 0, true);
  const auto sample = [&](std::int64_t position) { return options.shuffle ? shuffled[position] : position; };
  constexpr std::int64_t piece = 256;
  in_pieces(
      size, piece, [&](std::int64_t i) { return prepare(images, sample(i)); },
      [&](std::int64_t i, const Prepared& prepared) { packer.add(sample(i), prepared); }, on_images);
  return packer.commit(with_property);
}

}  // namespace heddle

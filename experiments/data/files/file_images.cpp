#include "experiments/data/files/file_images.h"

#include <filesystem>
#include <mutex>
#include <system_error>
#include <utility>

#include "experiments/data/parallel_for.h"
#include "framework/description/text.h"
#include "framework/error.h"
#include "framework/files/crc32c.h"

namespace heddle {

FileImages::FileImages(FileSet files, Preprocessing preprocessing, OnBroken on_broken)
    : EncodedImages(std::move(preprocessing), on_broken), files_(std::move(files)) {
  for (std::string& note : files_.notes) add_note(std::move(note));
  files_.notes.clear();
  const Broken broken = find_broken();
  if (!broken.empty()) leave_out(broken);
}

void FileImages::check(Split split, std::int64_t index) const {
  if (index < 0 || index >= size(split))
    fail("{}: sample {} is out of range, there are {}", files_.title, index, size(split));
}

std::int64_t FileImages::label(Split split, std::int64_t index) const {
  check(split, index);
  return samples(split).label(index);
}

double FileImages::weight(std::int64_t index) const {
  check(Split::train, index);
  return files_.train.weight(index);
}

std::string FileImages::sample_name(Split split, std::int64_t index) const {
  check(split, index);
  return (std::filesystem::path(files_.root) / samples(split).path(index)).string();
}

std::span<const std::uint8_t> FileImages::encoded(Split split, std::int64_t index,
                                                  std::vector<std::uint8_t>& buffer) const {
  buffer = read_image_file(sample_name(split, index));
  return buffer;
}

std::optional<ImagesChecksum> FileImages::training_checksum() const {
  std::call_once(has_checksum_, [this] { checksum_ = checksum_of_training(); });
  return checksum_;
}

ImagesChecksum FileImages::checksum_of_training() const {
  const std::int64_t images = files_.train.size();
  ImagesChecksum checksum{.images = images};
  for (std::int64_t i = 0; i < images; ++i) {
    checksum.names = crc32c(files_.train.path(i), checksum.names);
    checksum.names = crc32c(fmt::format("\n{}\n", files_.train.label(i)), checksum.names);
    if (files_.train.has_weights()) checksum.names = crc32c(fmt::format("{}\n", weight(i)), checksum.names);
  }
  std::vector<std::uint64_t> sizes(static_cast<std::size_t>(images));
  parallel_for(images, [&](std::int64_t i) {
    std::error_code error;  // a file that is gone has no size, and is found when it is read
    const std::uintmax_t size = std::filesystem::file_size(sample_name(Split::train, i), error);
    sizes[static_cast<std::size_t>(i)] = error ? 0 : size;
  });
  checksum.sizes = crc32c(std::as_bytes(std::span(sizes)));
  return checksum;
}

FileImages::Broken FileImages::find_broken() const {
  const std::int64_t train = files_.train.size();
  const std::int64_t all = train + files_.test.size();
  Broken broken;
  std::mutex lock;
  parallel_for(all, [&](std::int64_t i) {
    const std::string file = i < train ? sample_name(Split::train, i) : sample_name(Split::test, i - train);
    try {
      if (all <= decoded_at_start) {
        const Image image = load_image(file);
        preprocessing().check_size(image.height, image.width, file);
      } else {
        const ImageHeader header = load_image_header(file);
        preprocessing().check_size(header.height, header.width, file);
      }
    } catch (const InputError& error) {
      if (on_broken() == OnBroken::stop) throw;
      const std::scoped_lock guard(lock);
      broken.emplace(i, error.what());
    }
  });
  return broken;
}

void FileImages::leave_out(const Broken& broken) {
  FileSet old = std::exchange(files_, {});
  files_.title = old.title;
  files_.root = old.root;
  const std::int64_t train = old.train.size();
  const auto count = static_cast<std::int64_t>(broken.size());
  check_share_of_broken(count, train + old.test.size(), broken.begin()->second);

  constexpr std::int64_t without_image = -1;
  std::vector<std::int64_t> new_label(static_cast<std::size_t>(old.classes), without_image);
  const auto label_in_training = [&](std::int64_t i) -> std::int64_t& {
    return new_label[static_cast<std::size_t>(old.train.label(i))];
  };
  for (std::int64_t i = 0; i < train; ++i)
    if (!broken.contains(i)) label_in_training(i) = 0;
  for (std::size_t i = 0; i < new_label.size(); ++i) {
    if (new_label[i] == without_image) continue;
    new_label[i] = files_.classes++;
    files_.names.push_back(std::move(old.names[i]));
  }
  const std::int64_t lost = old.classes - files_.classes;

  for (std::int64_t i = 0; i < train; ++i)
    if (!broken.contains(i)) files_.train.add(old.train.path(i), label_in_training(i), old.train.weight(i));
  for (std::int64_t i = 0; i < old.test.size(); ++i) {
    if (broken.contains(train + i)) continue;
    const std::int64_t label = old.test.label(i);
    const std::int64_t now = label < old.classes ? new_label[static_cast<std::size_t>(label)] : label - lost;
    if (now != without_image) files_.test.add(old.test.path(i), now);
  }
  add_note(fmt::format(
      "{}: {} left out{}", files_.title,
      counted(count, "image that cannot be used is", "images that cannot be used are"),
      lost == 0 ? "" : fmt::format(", and {} with no training image left", counted(lost, "person", "people"))));
  std::size_t named = 0;
  for (auto each = broken.begin(); each != broken.end() && named < max_named; ++each, ++named)
    add_note("left out: " + each->second);
  if (files_.classes < 2)
    fail<InputError>("{}: {} left; at least 2 are needed", files_.title,
                     counted(files_.classes, "person is", "people are"));
}

}  // namespace heddle

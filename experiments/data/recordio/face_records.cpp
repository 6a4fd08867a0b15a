#include "experiments/data/recordio/face_records.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>

#include "experiments/data/recordio/image_record.h"
#include "framework/description/printable.h"
#include "framework/description/text.h"
#include "framework/error.h"
#include "framework/files/atomic_file.h"

namespace heddle {
namespace {

/// The path if it exists. A dangling link counts, so that the reason is reported when it is opened.
std::optional<std::filesystem::path> if_present(std::filesystem::path path) {
  std::error_code unknown;
  if (std::filesystem::symlink_status(path, unknown).type() == std::filesystem::file_type::not_found) return {};
  return path;
}

}  // namespace

FaceProperty read_face_property(const std::filesystem::path& path) {
  constexpr std::uint64_t max_bytes = 100;
  const std::string text = read_file(path, max_bytes);
  std::array<std::int64_t, 3> numbers{};
  const char* at = text.data();
  const char* const end = at + text.find_last_not_of(" \r\n") + 1;
  bool is_good = true;
  for (std::size_t i = 0; i < numbers.size() && is_good; ++i) {
    const auto [behind, error] = std::from_chars(at, end, numbers[i]);
    const bool is_last = i + 1 == numbers.size();
    is_good = error == std::errc() && numbers[i] >= 1 && (is_last ? behind == end : behind != end && *behind == ',');
    at = behind + 1;
  }
  if (!is_good || numbers[0] > max_face_label + 1)
    fail<InputError>("{}: expected classes,height,width with at most {} classes, got {}", path.string(),
                     max_face_label + 1, in_quotes(text));
  return {.classes = numbers[0], .height = numbers[1], .width = numbers[2]};
}

FaceRecords::FaceRecords(const std::filesystem::path& path, const OnBrokenRecord& on_broken) : records_(path) {
  std::int64_t left_out = 0;
  std::string first;
  OnBrokenRecord leave_out;
  if (on_broken)
    leave_out = [&](const std::string& message) {
      if (left_out++ == 0) first = message;
      on_broken(message);
    };
  faces_ = list_faces(records_, if_present(std::filesystem::path(path).replace_extension(".idx")), leave_out);
  if (const auto property = if_present(path.parent_path() / "property")) property_ = read_face_property(*property);
  if (property_) drop_unknown_labels(leave_out);
  if (size() == 0 && left_out > 0)
    fail<InputError>("{}: none of {} can be used; the first: {}", path.string(), counted(left_out, "image", "images"),
                     first);
  if (size() == 0) fail<InputError>("{}: there is no image in it", path.string());
  count_classes();
}

std::string FaceRecords::index_note() const {
  if (faces_.unlisted_bytes == 0) return "";
  return fmt::format("{}: {} of the file follow the last of the {} that its .idx lists, and are left out",
                     path().string(), counted(static_cast<std::int64_t>(faces_.unlisted_bytes), "byte", "bytes"),
                     counted(size(), "image", "images"));
}

/// Leaves out images whose labels are not among the classes of `property`.
void FaceRecords::drop_unknown_labels(const OnBrokenRecord& on_broken) {
  std::vector<std::size_t> unknown;
  for (std::int64_t i = 0; i < size(); ++i) {
    if (label(i) < property_->classes) continue;
    const std::string message =
        fmt::format("{}: label {} is not one of the {} classes that the file \"property\" announces", name(i), label(i),
                    property_->classes);
    if (!on_broken) fail<InputError>("{}", message);
    on_broken(message);
    unknown.push_back(static_cast<std::size_t>(i));
  }
  faces_.index.erase(unknown);
  erase_positions(faces_.labels, unknown);
}

void FaceRecords::count_classes() {
  const auto largest = std::max_element(faces_.labels.begin(), faces_.labels.end());
  classes_ = *largest + 1;
  if (property_) classes_ = property_->classes;
  // Counted by images: there may be few of them, and millions of classes.
  classes_without_images_ = classes_;
  std::vector<bool> has_image(static_cast<std::size_t>(classes_));
  for (const std::int32_t label : faces_.labels) {
    if (has_image[static_cast<std::size_t>(label)]) continue;
    has_image[static_cast<std::size_t>(label)] = true;
    --classes_without_images_;
  }
}

std::span<const std::uint8_t> FaceRecords::image(std::int64_t i, std::vector<std::uint8_t>& buffer) const {
  const RecordPlace place = this->place(i);
  const Record record = records_.read(place, buffer);
  records_.fetch(record);
  return parse_image_record(record.bytes, records_.name(place.key)).image;
}

}  // namespace heddle

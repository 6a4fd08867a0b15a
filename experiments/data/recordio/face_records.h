// The faces of a `.rec`: their labels and their encoded images.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "experiments/data/recordio/face_list.h"
#include "experiments/data/recordio/record_file.h"

namespace heddle {

/// InsightFace's file `property` in the folder of a `.rec`: one line `classes,height,width`.
struct FaceProperty {
  std::int64_t classes = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
};
/// InputError unless the file has these three numbers, each at least 1.
FaceProperty read_face_property(const std::filesystem::path& path);

/// Const members may be called from several threads concurrently.
class FaceRecords {
 public:
  /// Opens NAME.rec, with the index NAME.idx if there is one beside it, as list_faces() does. It is also an InputError
  /// if there are no images, or if a label is not one of the classes of `property`; with `on_broken`, images with such
  /// labels are left out.
  explicit FaceRecords(const std::filesystem::path& path, const OnBrokenRecord& on_broken = {});

  const std::filesystem::path& path() const { return records_.path(); }
  std::int64_t size() const { return static_cast<std::int64_t>(faces_.labels.size()); }
  std::int64_t label(std::int64_t i) const { return faces_.labels[static_cast<std::size_t>(i)]; }
  /// "faces.rec, record 18": its key in the index or, without an index, its number in the file, from 0.
  std::string name(std::int64_t i) const { return records_.name(place(i).key).text(); }
  /// The JPEG or PNG of image i. Its bytes lie in the mapped file, or in `buffer` if the record is stored in parts.
  std::span<const std::uint8_t> image(std::int64_t i, std::vector<std::uint8_t>& buffer) const;

  /// Labels are 0 .. classes()-1: the largest label plus 1, or what `property` says if that is more. Labels are never
  /// renumbered, so that a trained head keeps its rows when images of some people are left out.
  std::int64_t classes() const { return classes_; }
  /// The number of classes without an image.
  std::int64_t classes_without_images() const { return classes_without_images_; }
  /// A note for the user where the index lists images only up to some place within the file; else empty.
  std::string index_note() const;
  /// The contents of the file `property`, if there is one.
  const std::optional<FaceProperty>& property() const { return property_; }

 private:
  RecordPlace place(std::int64_t i) const { return faces_.index.place(static_cast<std::size_t>(i)); }
  void drop_unknown_labels(const OnBrokenRecord& on_broken);
  void count_classes();

  RecordFile records_;
  FaceList faces_;
  std::int64_t classes_ = 0;
  std::int64_t classes_without_images_ = 0;
  std::optional<FaceProperty> property_;
};

}  // namespace heddle

// Writes faces as InsightFace packs them: a `.rec`, its index, and the file `property` beside them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "experiments/data/recordio/face_records.h"
#include "experiments/data/recordio/record_file.h"
#include "experiments/data/recordio/record_index.h"

namespace heddle {

enum class RecordLayout {
  identities,  ///< as face2rec2.py: record 0, images from key 1 on, and a record for each run of images of one label
  plain,       ///< as shuffle_rec.py: images from key 0 on
};

/// The files replace others of their names when they are committed, one after the other, once all are complete; without
/// `commit` there are none. If one of them cannot replace another, those of this commit are removed, and what they had
/// replaced before is lost.
class FaceWriter {
 public:
  /// Begins NAME.rec. InputError if no file can be created in its folder.
  FaceWriter(const std::filesystem::path& path, RecordLayout layout);

  /// Appends an encoded image. InputError if 32-bit floats cannot hold its label.
  void add(std::int64_t label, std::span<const std::uint8_t> image);
  std::int64_t images() const { return images_; }
  /// The bytes of the `.rec` so far.
  std::uint64_t bytes() const { return records_.bytes(); }

  /// Completes NAME.rec, NAME.idx and, if it is given, `property`.
  void commit(const std::optional<FaceProperty>& property);

 private:
  /// The images with the keys begin .. end-1 have one label.
  struct Run {
    std::uint64_t begin;
    std::uint64_t end;
  };
  void write(std::uint64_t key, std::span<const std::uint8_t> payload);
  void write_identities();

  std::filesystem::path path_;
  RecordLayout layout_;
  RecordWriter records_;
  RecordIndex index_;
  std::int64_t images_ = 0;
  std::int64_t last_label_ = -1;
  std::vector<Run> runs_;
};

}  // namespace heddle

// Finds the records of a `.rec` that are images of faces, and their labels.
//
// InsightFace's layout begins with a record that has no image and two labels: the key of the first identity record, and
// the end of the identities' keys. The records from key 1 up to the first identity are images. An identity record
// represents a person and has no image. In any other file (written by MXNet's im2rec or InsightFace's shuffle_rec.py)
// every record is an image.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "experiments/data/recordio/record_file.h"
#include "experiments/data/recordio/record_index.h"

namespace heddle {

/// The largest label that is accepted. A `.rec` stores labels as 32-bit floats, which cannot represent every larger
/// integer.
inline constexpr std::int64_t max_face_label = std::int64_t{1} << 24;

/// The images and their labels. Takes 12 bytes for each image, or 20 if keys are not consecutive.
struct FaceList {
  RecordIndex index;
  std::vector<std::int32_t> labels;
  std::uint64_t unlisted_bytes = 0;  // of the file behind the last record that the index lists, where all are images
};

/// Receives the error of an image that is left out.
using OnBrokenRecord = std::function<void(const std::string& message)>;

/// The images of `records`, in the order of their keys (InsightFace's layout), of the index, or of the file if there is
/// no index. Reads each image's header once: with an index on the calling thread's OpenMP team, without one in a walk
/// through the file. An image whose record or label cannot be used is an InputError; if `on_broken` is given, it
/// receives these errors in the order of the images, and the images are left out. An error that makes the whole file
/// unusable is always thrown. Images are not decoded.
FaceList list_faces(const RecordFile& records, const std::optional<std::filesystem::path>& index,
                    const OnBrokenRecord& on_broken);

/// The key of the first identity record among records with the keys 0 .. records-1. Record 0 gives it as a 32-bit
/// float, which is rounded above 2^24. The result is the first of the keys that round to `given` for which
/// `is_identity` is true, or `given` if there is none.
std::uint64_t first_identity(float given, std::uint64_t records,
                             const std::function<bool(std::uint64_t key)>& is_identity);

}  // namespace heddle

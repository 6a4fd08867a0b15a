// Which records of a `.rec` are images of faces, and their labels.
//
// InsightFace's layout begins with a record that has no image and two labels: the key of the first identity record, and
// the end of the identities' keys. Images have the keys from 1 up to the first of these; an identity record stands for
// a person and has no image. In any other file (of MXNet's im2rec, or of InsightFace's shuffle_rec.py) every record is
// an image.
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

/// Larger labels are refused: 32-bit floats, as which a `.rec` stores them, do not tell larger integers apart.
inline constexpr std::int64_t largest_face_label = std::int64_t{1} << 24;

/// 12 bytes for each image, or 20 if keys are not consecutive.
struct FaceList {
  RecordIndex index;
  std::vector<std::int32_t> labels;
};

/// Is given the message of an image that is left out.
using OnBrokenRecord = std::function<void(const std::string& message)>;

/// The images of `records`, in the order of their keys (InsightFace's layout), of the index, or of the file if there is
/// no index. Reads each image's header once: with an index on the calling thread's OpenMP team, without one in a walk
/// through the file. InputError if an image's record or label cannot be used; but if `on_broken` is given, it gets the
/// messages, in the order of the images, and those images are left out. What makes the whole file unusable is an
/// InputError in any case. Images are not decoded.
FaceList list_faces(const RecordFile& records, const std::optional<std::filesystem::path>& index,
                    const OnBrokenRecord& on_broken);

/// The key of the first identity record among records with the keys 0 .. records-1. Record 0 gives it as a 32-bit
/// float, which above 2^24 is rounded: then it is the first of the keys that round to `given` for which `is_identity`
/// is true, or `given` if there is none.
std::uint64_t first_identity(float given, std::uint64_t records,
                             const std::function<bool(std::uint64_t key)>& is_identity);

}  // namespace heddle

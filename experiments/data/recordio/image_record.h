// The payload of a record that holds an image: MXNet's header of 24 bytes (u32 flag, f32 label, u64 id, u64 id2),
// `flag` labels of f32, and the encoded image (JPEG, PNG).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "experiments/data/recordio/record_file.h"

namespace heddle {

struct ImageRecord {
  std::uint32_t flag = 0;  ///< the number of labels after the header; 0: the header's label is used
  float header_label = 0;
  std::uint64_t id = 0;
  std::uint64_t id2 = 0;
  std::span<const std::uint8_t> label_bytes;  ///< 4 * flag bytes
  std::span<const std::uint8_t> image;        ///< empty in records of identities

  /// The i-th of `flag` labels.
  float label(std::uint32_t i) const;
  /// The class, which is the first of several labels.
  float label() const { return flag == 0 ? header_label : label(0); }
};

/// The spans of the result lie in `payload`. InputError if it is shorter than its header says.
ImageRecord parse_image_record(std::span<const std::uint8_t> payload, const RecordName& name);

/// Packs a payload as MXNet does: with one label in the header, or with any number of labels after it.
std::vector<std::uint8_t> pack_image_record(float label, std::uint64_t id, std::span<const std::uint8_t> image);
std::vector<std::uint8_t> pack_image_record(std::span<const float> labels, std::uint64_t id,
                                            std::span<const std::uint8_t> image);

}  // namespace heddle

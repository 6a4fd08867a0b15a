#include "experiments/data/recordio/image_record.h"

#include <cstring>

#include "framework/error.h"

namespace heddle {
namespace {

struct PackedHeader {
  std::uint32_t flag;
  float label;
  std::uint64_t id;
  std::uint64_t id2;
};
static_assert(sizeof(PackedHeader) == 24);

std::vector<std::uint8_t> pack_parts(const PackedHeader& header, std::span<const float> labels,
                                     std::span<const std::uint8_t> image) {
  std::vector<std::uint8_t> payload(sizeof header + labels.size_bytes() + image.size());
  std::memcpy(payload.data(), &header, sizeof header);
  std::uint8_t* const behind = payload.data() + sizeof header;
  if (!labels.empty()) std::memcpy(behind, labels.data(), labels.size_bytes());
  if (!image.empty()) std::memcpy(behind + labels.size_bytes(), image.data(), image.size());
  return payload;
}

}  // namespace

float ImageRecord::label(std::uint32_t i) const {
  float value = 0;
  std::memcpy(&value, label_bytes.data() + std::size_t{i} * sizeof value, sizeof value);
  return value;
}

ImageRecord parse_image_record(std::span<const std::uint8_t> payload, const RecordName& name) {
  PackedHeader header{};
  if (payload.size() < sizeof header)
    fail<InputError>("{}: has {} bytes; the header of an image has {}", name.text(), payload.size(), sizeof header);
  std::memcpy(&header, payload.data(), sizeof header);
  payload = payload.subspan(sizeof header);
  const std::uint64_t label_bytes = std::uint64_t{header.flag} * sizeof(float);
  if (label_bytes > payload.size())
    fail<InputError>("{}: its flag announces {} labels, but only {} bytes follow", name.text(), header.flag,
                     payload.size());
  return {.flag = header.flag,
          .header_label = header.label,
          .id = header.id,
          .id2 = header.id2,
          .label_bytes = payload.first(label_bytes),
          .image = payload.subspan(label_bytes)};
}

std::vector<std::uint8_t> pack_image_record(float label, std::uint64_t id, std::span<const std::uint8_t> image) {
  return pack_parts({.flag = 0, .label = label, .id = id, .id2 = 0}, {}, image);
}

std::vector<std::uint8_t> pack_image_record(std::span<const float> labels, std::uint64_t id,
                                            std::span<const std::uint8_t> image) {
  return pack_parts({.flag = static_cast<std::uint32_t>(labels.size()), .label = 0, .id = id, .id2 = 0}, labels, image);
}

}  // namespace heddle

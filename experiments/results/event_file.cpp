#include "experiments/results/event_file.h"

#include <bit>

#include "framework/files/crc32c.h"

namespace heddle {

namespace {

/// TensorFlow masks checksums, so that data which contain checksums are safe.
std::uint32_t masked_crc(std::string_view bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xA282EAD8U;
}

template <class T>
std::string little_endian(T value) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof value; ++i) bytes += static_cast<char>((value >> (8 * i)) & 0xFFU);
  return bytes;
}

// Protocol buffers: a field is a key (number and wire type) and its value.
enum WireType : std::uint32_t { varint_type = 0, fixed64 = 1, length_delimited = 2, fixed32 = 5 };

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>((value & 0x7FU) | 0x80U);
  return bytes += static_cast<char>(value);
}
std::string key(std::uint32_t field, WireType type) {
  return varint(field << 3 | type);
}
std::string double_field(std::uint32_t field, double value) {
  return key(field, fixed64) + little_endian(std::bit_cast<std::uint64_t>(value));
}
std::string float_field(std::uint32_t field, float value) {
  return key(field, fixed32) + little_endian(std::bit_cast<std::uint32_t>(value));
}
std::string int_field(std::uint32_t field, std::int64_t value) {
  return key(field, varint_type) + varint(static_cast<std::uint64_t>(value));
}
std::string bytes_field(std::uint32_t field, std::string_view value) {
  return (key(field, length_delimited) + varint(value.size())).append(value);
}

// The fields of tensorboard/compat/proto: event.proto and summary.proto.
constexpr std::uint32_t event_wall_time = 1, event_step = 2, event_file_version = 3, event_summary = 5;
constexpr std::uint32_t summary_value = 1, value_tag = 1, value_simple = 2;

}  // namespace

std::string tfrecord(std::string_view bytes) {
  const std::string length = little_endian(std::uint64_t{bytes.size()});
  std::string record = length + little_endian(masked_crc(length));
  return record.append(bytes) + little_endian(masked_crc(bytes));
}

std::string event_file_header(double seconds) {
  return tfrecord(double_field(event_wall_time, seconds) + bytes_field(event_file_version, "brain.Event:2"));
}

std::string scalars_event(double seconds, std::int64_t step, std::span<const std::pair<std::string, double>> scalars) {
  std::string summary;
  for (const auto& [tag, value] : scalars)
    summary +=
        bytes_field(summary_value, bytes_field(value_tag, tag) + float_field(value_simple, static_cast<float>(value)));
  return tfrecord(double_field(event_wall_time, seconds) + int_field(event_step, step) +
                  bytes_field(event_summary, summary));
}

}  // namespace heddle

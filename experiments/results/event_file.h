// TensorBoard's event file: records framed with masked CRC-32C, each a protobuf Event, encoded here by hand.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace heddle {

/// TFRecord: length, its masked checksum, the bytes, their masked checksum.
std::string tfrecord(std::string_view bytes);
/// The first record of every event file. `seconds` is Unix time.
std::string event_file_header(double seconds);
/// One record with the scalars of one step.
std::string scalars_event(double seconds, std::int64_t step, std::span<const std::pair<std::string, double>> scalars);

}  // namespace heddle

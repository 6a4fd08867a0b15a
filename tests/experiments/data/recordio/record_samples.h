// Files of records for tests, made byte by byte or by the writer.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/data/recordio/image_record.h"
#include "experiments/data/recordio/record_file.h"
#include "experiments/data/recordio/record_index.h"
#include "tests/support/images/encoded_image.h"
#include "tests/support/message.h"
#include "tests/support/scratch.h"

namespace heddle::test {

inline void append(Bytes& bytes, const Bytes& more) {
  bytes.insert(bytes.end(), more.begin(), more.end());
}

/// The little-endian bytes of a number.
template <class Number>
Bytes bytes_of_number(Number number) {
  const auto bytes = std::bit_cast<std::array<std::uint8_t, sizeof number>>(number);
  return {bytes.begin(), bytes.end()};
}

/// A part of a record as in a file, with a header that announces `length` bytes.
inline Bytes raw_part(std::uint32_t kind, const Bytes& payload, std::uint32_t length) {
  Bytes bytes = bytes_of_number(record_magic);
  append(bytes, bytes_of_number(kind << 29 | length));
  append(bytes, payload);
  bytes.resize((bytes.size() + 3) / 4 * 4);
  return bytes;
}
inline Bytes raw_part(std::uint32_t kind, const Bytes& payload) {
  return raw_part(kind, payload, static_cast<std::uint32_t>(payload.size()));
}

inline void write_bytes(const std::filesystem::path& path, const Bytes& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}
inline void write_text(const std::filesystem::path& path, std::string_view text) {
  write_bytes(path, bytes_of(text));
}
inline Bytes read_bytes(const std::filesystem::path& path) {
  return bytes_of(read_file(path, std::uint64_t{1} << 30));
}

/// A record and its key.
struct KeyedPayload {
  std::uint64_t key;
  Bytes payload;
};

inline void write_index_file(const std::filesystem::path& path, const RecordIndex& index) {
  AtomicFile file(path);
  write_record_index(file, index);
  file.commit();
}

/// Writes a `.rec` and, beside it, its index.
inline void write_records(const std::filesystem::path& path, const std::vector<KeyedPayload>& records) {
  RecordWriter writer(path);
  RecordIndex index;
  for (const auto& [key, payload] : records) index.add({.offset = writer.write(payload), .key = key});
  writer.commit();
  write_index_file(std::filesystem::path(path).replace_extension(".idx"), index);
}

/// A message without the folder in front of its files.
inline std::string without_folder(std::string message, const Scratch& folder) {
  const std::string prefix = (folder / "").string();
  for (std::size_t at = 0; (at = message.find(prefix)) != std::string::npos;) message.erase(at, prefix.size());
  return message;
}

}  // namespace heddle::test

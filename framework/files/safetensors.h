// The safetensors format: named tensors in one file that other programs can read. It is written and read in pieces. The
// reader trusts nothing: every fault of a file is an InputError that names the file and the place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/files/atomic_file.h"
#include "framework/tensors/shape.h"

namespace heddle {

struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;

  std::uint64_t bytes() const { return static_cast<std::uint64_t>(shape.numel()) * size_of(dtype); }
  bool operator==(const SafetensorsEntry&) const = default;
};

using SafetensorsMetadata = std::map<std::string, std::string>;

/// Writes atomically: the header first, then the tensors' bytes (little-endian, row-major) in the order of `entries`.
class SafetensorsWriter {
 public:
  /// InputError on a name that is used twice, is not UTF-8, or is `__metadata__`.
  SafetensorsWriter(std::filesystem::path target, const std::vector<SafetensorsEntry>& entries,
                    const SafetensorsMetadata& metadata = {});
  /// Appends the next bytes; a tensor may be written in pieces.
  void write(std::span<const std::byte> bytes);
  /// Brings everything to disk under a temporary name. Error if fewer bytes were written than the entries have.
  void finish();
  void commit();
  /// CRC-32C of what has been written so far.
  std::uint32_t checksum() const { return checksum_; }

 private:
  void append(std::span<const std::byte> bytes);

  AtomicFile file_;
  std::uint32_t checksum_ = 0;
  std::uint64_t missing_ = 0;
};

class SafetensorsReader {
 public:
  /// Reads the header only. InputError unless the tensors cover the data without overlap or hole, no key appears twice,
  /// and every tensor has a known dtype and the bytes that its shape needs.
  explicit SafetensorsReader(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  /// In the order of their data in the file.
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }
  const SafetensorsMetadata& metadata() const { return metadata_; }
  /// Index into entries(); InputError if there is no such tensor.
  std::size_t index_of(std::string_view name) const;
  bool contains(std::string_view name) const { return by_name_.contains(name); }
  /// Fills `bytes` with the tensor's bytes from `offset` on.
  void read(std::size_t index, std::span<std::byte> bytes, std::uint64_t offset = 0) const;

 private:
  FileDescriptor file_;
  std::vector<SafetensorsEntry> entries_;
  std::vector<std::uint64_t> positions_;  // positions in the file
  std::map<std::string, std::size_t, std::less<>> by_name_;
  SafetensorsMetadata metadata_;
};

}  // namespace heddle

// MXNet's RecordIO (`.rec`): records of bytes, one after the other. A record is
//
//     u32 magic 0xced7230a    u32 kind (upper 3 bits) and length (lower 29 bits)    `length` bytes    zeros up to 4
//     bytes
//
// Inside a record the magic number never occurs at a multiple of 4: the writer cuts it out there and stores the record
// in parts, each with its own header (kind 1 is the first part, 2 a middle part, 3 the last part; 0 is a whole record).
// The reader puts the number back between the parts. Format and splitting are those of recordio.h in dmlc-core.
//
// Files are not trusted: everything that is wrong with one is an InputError that names the file, the record and the
// byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "experiments/data/recordio/mapped_file.h"
#include "framework/files/atomic_file.h"

namespace heddle {

inline constexpr std::uint32_t record_magic = 0xced7230a;
/// Records that are written must have fewer bytes than this.
inline constexpr std::uint64_t record_length_limit = std::uint64_t{1} << 29;

/// The place of a record in its file, and its key in the index and in messages. Without an index the key is the number
/// of the record in the file, from 0.
struct RecordPlace {
  std::uint64_t offset = 0;
  std::uint64_t key = 0;

  bool operator==(const RecordPlace&) const = default;
};

/// The name of a record in messages; its text is made only when it is needed.
struct RecordName {
  const std::filesystem::path& file;
  std::uint64_t key;

  std::string text() const;  ///< "faces.rec, record 18"
};

/// A record that was read.
struct Record {
  std::span<const std::uint8_t> bytes;  ///< the payload
  std::uint64_t end = 0;                ///< where the next record begins
};

/// Reads a `.rec`. Const members may be called from several threads concurrently.
class RecordFile {
 public:
  /// InputError if the file cannot be read or is empty.
  explicit RecordFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  std::uint64_t size() const { return file_.size(); }
  RecordName name(std::uint64_t key) const { return {path(), key}; }

  /// The record at `place`. If it is stored in one part, only its header is touched, and its bytes lie in the mapped
  /// file; otherwise the parts are joined in `buffer`. InputError if no record begins there, if it does not end within
  /// the file, or if it is a part of another.
  Record read(RecordPlace place, std::vector<std::uint8_t>& buffer) const;
  /// Calls visit(place, record) for every record from the beginning of the file to its end. InputError as in read().
  template <class Visit>
  void walk(const Visit& visit) const {
    std::vector<std::uint8_t> buffer;
    for (RecordPlace place; place.offset < size(); ++place.key) {
      const Record record = read(place, buffer);
      visit(place, record);
      place.offset = record.end;
    }
  }

  /// Advice to the system about the records that will be read next.
  void expect(MappedFile::Order order) const { file_.expect(order); }
  /// Asks the system to read a record's bytes in one request, before they are touched page by page.
  void fetch(const Record& record) const;

 private:
  struct Part {
    std::uint32_t kind;
    std::span<const std::uint8_t> bytes;
    std::uint64_t end;
  };
  Part part(std::uint64_t offset, const RecordName& name) const;
  Record join(Part part, const RecordName& name, std::vector<std::uint8_t>& buffer) const;

  MappedFile file_;
};

/// Writes a `.rec`. The target does not change before `commit`.
class RecordWriter {
 public:
  /// InputError if no file can be created in the target's folder.
  explicit RecordWriter(std::filesystem::path target) : file_(std::move(target)) {}

  /// Appends a record and returns its offset. InputError if it is not shorter than record_length_limit.
  std::uint64_t write(std::span<const std::uint8_t> payload);
  /// Replaces a record of as many bytes, whose offset write() returned. Neither may hold the magic number.
  void rewrite(std::uint64_t offset, std::span<const std::uint8_t> payload);
  /// Brings everything to disk under a temporary name; commit() then only renames.
  void finish() { file_.finish(); }
  void commit() { file_.commit(); }
  std::uint64_t bytes() const { return offset_; }

 private:
  void write_part(std::uint32_t kind, std::span<const std::uint8_t> bytes);

  AtomicFile file_;
  std::uint64_t offset_ = 0;
  std::uint64_t records_ = 0;
};

}  // namespace heddle

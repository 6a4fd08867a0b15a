// MXNet's RecordIO (`.rec`): records of bytes, one behind the other. A record is
//
//     u32 magic 0xced7230a    u32 kind (upper 3 bits) and length (lower 29 bits)    `length` bytes    zeros up to 4
//     bytes
//
// The magic number never stands at a multiple of 4 inside of a record: the writer cuts it out of the payload there, and
// the record is stored in parts, each with a header of its own (kind 1 the first, 2 further ones, 3 the last; 0 is a
// whole record). The reader puts the number back between them. Format and splitting are those of dmlc-core, recordio.h.
//
// The reader trusts nothing: whatever is wrong with a file is an InputError that names file, record and place.
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
/// A record that is written has fewer bytes than this.
inline constexpr std::uint64_t record_length_limit = std::uint64_t{1} << 29;

/// Where a record begins in its file, and the key by which the index and messages know it. Without an index it is the
/// number of the record in its file, from 0.
struct RecordPlace {
  std::uint64_t offset = 0;
  std::uint64_t key = 0;

  bool operator==(const RecordPlace&) const = default;
};

/// What messages call a record; the text is made only where there is something to say.
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

/// A `.rec` that is read. Every const member may be called from several threads at once.
class RecordFile {
 public:
  /// InputError if the file cannot be read or is empty.
  explicit RecordFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  std::uint64_t size() const { return file_.size(); }
  RecordName name(std::uint64_t key) const { return {path(), key}; }

  /// The record at `place`. If it is stored in one part, only its header is touched, and its bytes are those of the
  /// mapped file; otherwise they are put together in `buffer`. InputError if no record begins there, if it does not end
  /// within the file, or if it is a part of another.
  Record read(RecordPlace place, std::vector<std::uint8_t>& buffer) const;
  /// visit(place, record) for all records from the file's beginning to its end, as read().
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
  /// Has a record's bytes read in one go, before they are touched one page after the other.
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

/// A `.rec` that is written; without `commit` the target is left as it was.
class RecordWriter {
 public:
  /// InputError if no file can be created in the target's folder.
  explicit RecordWriter(std::filesystem::path target) : file_(std::move(target)) {}

  /// Appends a record and returns its offset. InputError if it is as long as record_length_limit.
  std::uint64_t write(std::span<const std::uint8_t> payload);
  void commit() { file_.commit(); }

 private:
  void write_part(std::uint32_t kind, std::span<const std::uint8_t> bytes);

  AtomicFile file_;
  std::uint64_t offset_ = 0;
  std::uint64_t records_ = 0;
};

}  // namespace heddle

// Apache Parquet's files of a text and a vector of f32 per row, written in pieces. Debian has no library for them.
//
//   "PAR1"
//   row groups   each has a page of texts, then a page of vectors: a header (PageHeader), levels, and the values, PLAIN
//                and uncompressed
//   footer       where they lie and what they mean (FileMetaData), its length in four bytes, "PAR1"
//
// The vectors are a list of three levels, as the format asks of them: `required group embedding (LIST) {
// repeated group list { required float element; } }`. https://github.com/apache/parquet-format defines all of it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "framework/files/atomic_file.h"

namespace heddle {

class ThriftWriter;

/// The file appears when it is complete. What is held in memory is one row group, and about 100 bytes for each
/// finished row group.
class ParquetWriter {
 public:
  struct Columns {
    std::string text;
    std::string vector;
    std::int64_t dimension = 0;  // the length of each vector, at least 1
  };
  static constexpr std::int64_t default_group_bytes = std::int64_t{1} << 24;

  /// A row group has about `group_bytes` of vectors at most, and at least one row.
  ParquetWriter(std::filesystem::path path, Columns columns, std::int64_t group_bytes = default_group_bytes);
  /// Appends rows: texts in UTF-8 and the vectors [texts, dimension].
  void append(std::span<const std::string> texts, std::span<const float> vectors);
  /// Writes the footer and brings everything to disk under a temporary name.
  void finish();
  void commit() { file_.commit(); }

 private:
  struct Chunk {  // one column of a row group, in one page
    std::int64_t offset = 0;
    std::int64_t bytes = 0;
    std::int64_t values = 0;
  };
  struct RowGroup {
    std::int64_t rows = 0;
    Chunk texts;
    Chunk vectors;
  };

  void write(std::span<const std::byte> bytes);
  Chunk write_page(std::int64_t values, const std::string& before, std::span<const std::byte> elements);
  Chunk write_texts(std::span<const std::string> texts);
  Chunk write_vectors(std::span<const float> vectors);
  void describe_columns(ThriftWriter& out) const;
  void describe_group(ThriftWriter& out, const RowGroup& group) const;

  AtomicFile file_;
  Columns columns_;
  std::size_t group_rows_;
  std::int64_t position_ = 0;
  std::vector<RowGroup> groups_;
};

}  // namespace heddle

#include "experiments/export/parquet.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "experiments/export/thrift.h"
#include "framework/error.h"

namespace heddle {

namespace {

constexpr std::string_view file_mark = "PAR1";
constexpr std::int64_t max_group_rows = 8192;  // so that the texts of a row group take some MiB at most

// The format's enumerators that these files use.
namespace format {
enum PhysicalType : std::int32_t { float_type = 4, byte_array = 6 };
enum Repetition : std::int32_t { required = 0, repeated = 2 };
enum ConvertedType : std::int32_t { utf8 = 0, list = 3 };
enum LogicalType : std::int32_t { string_field = 1, list_field = 3 };
enum Encoding : std::int32_t { plain = 0, rle = 3 };
enum CompressionCodec : std::int32_t { uncompressed = 0 };
enum PageType : std::int32_t { data_page = 0 };
}  // namespace format

/// A length in four bytes.
void append_length(std::string& bytes, std::size_t length) {
  for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(length >> shift);
}

/// A run of equal levels of one bit.
void append_run(std::string& levels, std::size_t count, char level) {
  append_varint(levels, count << 1);
  levels += level;
}

/// The levels of lists that all have this length: an element repeats its list unless it is the first, and all exist.
std::string levels_of(std::size_t lists, std::size_t length) {
  std::string repetitions;
  for (std::size_t i = 0; i < lists; ++i) {
    append_run(repetitions, 1, 0);
    if (length > 1) append_run(repetitions, length - 1, 1);
  }
  std::string definitions;
  append_run(definitions, lists * length, 1);
  std::string levels;
  append_length(levels, repetitions.size());
  levels += repetitions;
  append_length(levels, definitions.size());
  return levels + definitions;
}

}  // namespace

ParquetWriter::ParquetWriter(std::filesystem::path path, Columns columns, std::int64_t group_bytes)
    : file_(std::move(path)), columns_(std::move(columns)) {
  if (columns_.dimension < 1) fail("{}: expected vectors with elements", file_.target().string());
  const std::int64_t row_bytes = columns_.dimension * static_cast<std::int64_t>(sizeof(float));
  group_rows_ = static_cast<std::size_t>(std::clamp(group_bytes / row_bytes, std::int64_t{1}, max_group_rows));
  write(std::as_bytes(std::span(file_mark)));
}

void ParquetWriter::append(std::span<const std::string> texts, std::span<const float> vectors) {
  const auto dimension = static_cast<std::size_t>(columns_.dimension);
  if (vectors.size() != texts.size() * dimension)
    fail("{}: expected {} numbers for {} rows, got {}", file_.target().string(), texts.size() * dimension, texts.size(),
         vectors.size());
  while (!texts.empty()) {
    const std::size_t rows = std::min(group_rows_, texts.size());
    RowGroup& group = groups_.emplace_back();
    group.rows = static_cast<std::int64_t>(rows);
    group.texts = write_texts(texts.first(rows));
    group.vectors = write_vectors(vectors.first(rows * dimension));
    texts = texts.subspan(rows);
    vectors = vectors.subspan(rows * dimension);
  }
}

void ParquetWriter::finish() {
  std::int64_t rows = 0;
  for (const RowGroup& group : groups_) rows += group.rows;
  ThriftWriter footer;  // FileMetaData
  footer.i32(1, 1);     // version
  describe_columns(footer);
  footer.i64(3, rows);
  footer.list_of_structures(4, groups_.size(), [&](std::size_t i) { describe_group(footer, groups_[i]); });
  footer.text(6, "heddle version " HEDDLE_VERSION);  // created_by
  std::string bytes = footer.finish();
  append_length(bytes, bytes.size());
  bytes += file_mark;
  write(std::as_bytes(std::span(bytes)));
  file_.finish();
}

void ParquetWriter::write(std::span<const std::byte> bytes) {
  file_.write(bytes);
  position_ += static_cast<std::int64_t>(bytes.size());
}

ParquetWriter::Chunk ParquetWriter::write_page(std::int64_t values, const std::string& before,
                                               std::span<const std::byte> elements) {
  const std::size_t size = before.size() + elements.size();
  if (size > std::numeric_limits<std::int32_t>::max())
    fail("{}: a page of {} bytes is more than Parquet can say", file_.target().string(), size);
  const auto bytes = static_cast<std::int32_t>(size);
  ThriftWriter page;  // PageHeader
  page.i32(1, format::data_page);
  page.i32(2, bytes);                  // uncompressed
  page.i32(3, bytes);                  // compressed
  page.structure(5, [&page, values] {  // DataPageHeader
    page.i32(1, static_cast<std::int32_t>(values));
    page.i32(2, format::plain);
    page.i32(3, format::rle);  // definition levels
    page.i32(4, format::rle);  // repetition levels
  });
  const std::string header = page.finish();
  const std::int64_t offset = position_;
  write(std::as_bytes(std::span(header)));
  write(std::as_bytes(std::span(before)));
  write(elements);
  return {offset, position_ - offset, values};
}

ParquetWriter::Chunk ParquetWriter::write_texts(std::span<const std::string> texts) {
  std::string values;
  for (const std::string& text : texts) {
    append_length(values, text.size());
    values += text;
  }
  return write_page(static_cast<std::int64_t>(texts.size()), values, {});
}

ParquetWriter::Chunk ParquetWriter::write_vectors(std::span<const float> vectors) {
  const auto dimension = static_cast<std::size_t>(columns_.dimension);
  return write_page(static_cast<std::int64_t>(vectors.size()), levels_of(vectors.size() / dimension, dimension),
                    std::as_bytes(vectors));
}

void ParquetWriter::describe_columns(ThriftWriter& out) const {
  // The tree of the columns, depth first. Each has: 1 type, 3 repetition, 4 name, 5 children, 6 converted type, 10
  // logical type.
  const std::vector<std::function<void()>> elements{
      [&] {
        out.text(4, "schema");
        out.i32(5, 2);
      },
      [&] {
        out.i32(1, format::byte_array);
        out.i32(3, format::required);
        out.text(4, columns_.text);
        out.i32(6, format::utf8);
        out.structure(10, [&] { out.structure(format::string_field, [] {}); });
      },
      [&] {
        out.i32(3, format::required);
        out.text(4, columns_.vector);
        out.i32(5, 1);
        out.i32(6, format::list);
        out.structure(10, [&] { out.structure(format::list_field, [] {}); });
      },
      [&] {
        out.i32(3, format::repeated);
        out.text(4, "list");
        out.i32(5, 1);
      },
      [&] {
        out.i32(1, format::float_type);
        out.i32(3, format::required);
        out.text(4, "element");
      }};
  out.list_of_structures(2, elements.size(), [&](std::size_t i) { elements[i](); });
}

void ParquetWriter::describe_group(ThriftWriter& out, const RowGroup& group) const {
  const auto describe_chunk = [&out](const Chunk& chunk, format::PhysicalType type,
                                     std::initializer_list<std::string_view> path) {
    out.i64(2, 0);          // no metadata outside the footer
    out.structure(3, [&] {  // ColumnMetaData
      out.i32(1, type);
      out.list_of_i32(2, {format::plain, format::rle});
      out.list_of_texts(3, path);
      out.i32(4, format::uncompressed);
      out.i64(5, chunk.values);
      out.i64(6, chunk.bytes);  // uncompressed
      out.i64(7, chunk.bytes);  // compressed
      out.i64(9, chunk.offset);
    });
  };
  out.list_of_structures(1, 2, [&](std::size_t column) {
    if (column == 0)
      describe_chunk(group.texts, format::byte_array, {columns_.text});
    else
      describe_chunk(group.vectors, format::float_type, {columns_.vector, "list", "element"});
  });
  out.i64(2, group.texts.bytes + group.vectors.bytes);
  out.i64(3, group.rows);
}

}  // namespace heddle

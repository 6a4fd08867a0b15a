// Files of Apache Parquet, read by what its definition says; parquet_test.sh reads them with PyArrow and pandas.
#include "experiments/export/parquet.h"

#include <bit>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "experiments/export/thrift.h"
#include "framework/error.h"
#include "tests/support/message.h"
#include "tests/support/scratch.h"

namespace heddle::test {
namespace {

std::uint64_t take_varint(std::string_view& bytes) {
  std::uint64_t number = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.at(0));
    bytes.remove_prefix(1);
    number |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return number;
  }
}

std::uint32_t take_length(std::string_view& bytes) {
  std::uint32_t length = 0;
  std::memcpy(&length, bytes.substr(0, 4).data(), 4);
  bytes.remove_prefix(4);
  return length;
}

/// A value of thrift's compact protocol.
struct Thrift {
  std::int64_t number = 0;
  std::string text;
  std::vector<Thrift> list;
  std::map<int, Thrift> fields;

  const Thrift& operator[](int field) const { return fields.at(field); }
  bool has(int field) const { return fields.contains(field); }
};

Thrift take_value(std::string_view& bytes, int type);

Thrift take_struct(std::string_view& bytes) {
  Thrift result;
  int field = 0;
  for (;;) {
    const int head = static_cast<unsigned char>(bytes.at(0));
    bytes.remove_prefix(1);
    if (head == 0) return result;
    REQUIRE((head >> 4) != 0);
    field += head >> 4;
    result.fields[field] = take_value(bytes, head & 15);
  }
}

Thrift take_value(std::string_view& bytes, int type) {
  Thrift value;
  if (type == 5 || type == 6) {
    const std::uint64_t number = take_varint(bytes);
    value.number = static_cast<std::int64_t>(number >> 1) ^ -static_cast<std::int64_t>(number & 1);
  } else if (type == 8) {
    const std::size_t size = take_varint(bytes);
    value.text = bytes.substr(0, size);
    bytes.remove_prefix(size);
  } else if (type == 9) {
    const int head = static_cast<unsigned char>(bytes.at(0));
    bytes.remove_prefix(1);
    const std::size_t size = head >> 4 == 15 ? take_varint(bytes) : static_cast<std::size_t>(head >> 4);
    for (std::size_t i = 0; i < size; ++i) value.list.push_back(take_value(bytes, head & 15));
  } else {
    REQUIRE(type == 12);
    value = take_struct(bytes);
  }
  return value;
}

/// Levels of one bit, in runs only.
std::vector<int> take_levels(std::string_view& bytes) {
  const std::size_t size = take_length(bytes);
  std::string_view runs = bytes.substr(0, size);
  bytes.remove_prefix(size);
  std::vector<int> levels;
  while (!runs.empty()) {
    const std::uint64_t head = take_varint(runs);
    REQUIRE((head & 1) == 0);
    levels.insert(levels.end(), head >> 1, runs.at(0));
    runs.remove_prefix(1);
  }
  return levels;
}

struct Read {
  Thrift footer;
  std::vector<std::string> texts;
  std::vector<std::vector<float>> vectors;
};

/// The bytes of the only page of a column, without its header, which must agree with the footer.
std::string_view page_of(std::string_view file, const Thrift& column) {
  const Thrift& meta = column[3];
  std::string_view chunk =
      file.substr(static_cast<std::size_t>(meta[9].number), static_cast<std::size_t>(meta[7].number));
  const Thrift header = take_struct(chunk);
  CHECK(header[1].number == 0);  // a data page
  CHECK(header[2].number == static_cast<std::int64_t>(chunk.size()));
  CHECK(header[3].number == header[2].number);
  CHECK(header[5][1].number == meta[5].number);
  CHECK(header[5][2].number == 0);  // PLAIN
  CHECK(meta[4].number == 0);       // uncompressed
  CHECK(meta[6].number == meta[7].number);
  return chunk;
}

Read read_parquet(const std::filesystem::path& path) {
  const std::string bytes = read_file(path, 1 << 24);
  const std::string_view file = bytes;
  REQUIRE(file.size() > 12);
  CHECK(file.substr(0, 4) == "PAR1");
  CHECK(file.substr(file.size() - 4) == "PAR1");
  std::string_view length = file.substr(file.size() - 8, 4);
  const std::size_t footer_size = take_length(length);
  std::string_view footer = file.substr(file.size() - 8 - footer_size, footer_size);
  Read read{take_struct(footer), {}, {}};
  CHECK(footer.empty());
  std::int64_t end = 4;  // the pages follow each other without holes
  for (const Thrift& group : read.footer[4].list) {
    REQUIRE(group[1].list.size() == 2);
    for (const Thrift& column : group[1].list) {
      CHECK(column[3][9].number == end);
      end += column[3][7].number;
    }
    std::string_view texts = page_of(file, group[1].list[0]);
    for (std::int64_t row = 0; row < group[3].number; ++row) {
      const std::size_t size = take_length(texts);
      read.texts.emplace_back(texts.substr(0, size));
      texts.remove_prefix(size);
    }
    CHECK(texts.empty());
    std::string_view vectors = page_of(file, group[1].list[1]);
    const std::vector<int> repetitions = take_levels(vectors);
    const std::vector<int> definitions = take_levels(vectors);
    CHECK(static_cast<std::int64_t>(repetitions.size()) == group[1].list[1][3][5].number);
    CHECK(definitions == std::vector<int>(repetitions.size(), 1));
    REQUIRE(vectors.size() == 4 * repetitions.size());
    for (std::size_t i = 0; i < repetitions.size(); ++i) {
      if (repetitions[i] == 0) read.vectors.emplace_back();
      std::memcpy(&read.vectors.back().emplace_back(), vectors.data() + 4 * i, 4);
    }
  }
  CHECK(end == static_cast<std::int64_t>(file.size() - 8 - footer_size));
  return read;
}

}  // namespace

TEST_CASE("a Parquet file has its rows bit for bit, in row groups of bounded size") {
  const Scratch folder;
  ParquetWriter writer(folder / "a.parquet", {"image", "embedding", 3}, 24);  // two rows of 12 bytes
  std::vector<std::string> texts;
  std::vector<std::vector<float>> vectors;
  for (const int rows : {5, 0, 1, 40}) {
    std::vector<std::string> some;
    std::vector<float> numbers;
    for (int row = 0; row < rows; ++row) {
      some.push_back(std::string(static_cast<std::size_t>(40 * row), 'x') + "\u00E4.jpg");
      const auto i = static_cast<float>(texts.size());
      const std::vector<float> vector{-0.0F, std::bit_cast<float>(0x7FC12345U), i / 3};
      numbers.insert(numbers.end(), vector.begin(), vector.end());
      texts.push_back(some.back());
      vectors.push_back(vector);
    }
    writer.append(some, numbers);
  }
  writer.finish();
  CHECK(!std::filesystem::exists(folder / "a.parquet"));
  writer.commit();
  const Read read = read_parquet(folder / "a.parquet");
  CHECK(read.footer[1].number == 1);
  CHECK(read.footer[6].text.starts_with("heddle version "));
  CHECK(read.footer[3].number == 46);
  std::vector<std::int64_t> rows;
  for (const Thrift& group : read.footer[4].list) rows.push_back(group[3].number);
  REQUIRE(rows.size() == 24);
  CHECK(std::vector(rows.begin(), rows.begin() + 5) == std::vector<std::int64_t>{2, 2, 1, 1, 2});
  CHECK(read.texts == texts);
  REQUIRE(read.vectors.size() == vectors.size());
  for (std::size_t row = 0; row < vectors.size(); ++row) {
    REQUIRE(read.vectors[row].size() == 3);
    CHECK(std::memcmp(read.vectors[row].data(), vectors[row].data(), 12) == 0);
  }
}

TEST_CASE("the schema of a Parquet file is a text and a list of three levels") {
  const Scratch folder;
  ParquetWriter writer(folder / "a.parquet", {"image", "embedding", 1});
  writer.append(std::vector<std::string>{"a", "b"}, std::vector<float>{1, 2});
  writer.finish();
  writer.commit();
  const Read read = read_parquet(folder / "a.parquet");
  CHECK(read.vectors == std::vector<std::vector<float>>{{1}, {2}});  // of one element: no level repeats
  const std::vector<Thrift>& schema = read.footer[2].list;
  std::string columns;  // name, physical type, repetition, children and converted type
  for (const Thrift& element : schema) {
    columns += element[4].text;
    for (const int field : {1, 3, 5, 6})
      columns += element.has(field) ? " " + std::to_string(element[field].number) : " -";
    columns += "\n";
  }
  CHECK(columns ==
        "schema - - 2 -\n"
        "image 6 0 - 0\n"
        "embedding - 0 1 3\n"
        "list - 2 1 -\n"
        "element 4 0 - -\n");
  CHECK(schema[1][10].has(1));  // STRING
  CHECK(schema[2][10].has(3));  // LIST
  std::vector<std::string> path;
  for (const Thrift& name : read.footer[4].list[0][1].list[1][3][3].list) path.push_back(name.text);
  CHECK(path == std::vector<std::string>{"embedding", "list", "element"});
}

TEST_CASE("a Parquet file without rows is complete, and one that is not committed does not appear") {
  const Scratch folder;
  {
    ParquetWriter writer(folder / "none.parquet", {"image", "embedding", 4});
    writer.finish();
    writer.commit();
    ParquetWriter given_up(folder / "a.parquet", {"image", "embedding", 4});
    given_up.append(std::vector<std::string>{"a"}, std::vector<float>(4));
    given_up.finish();
  }
  CHECK(folder.files() == 1);
  CHECK(read_parquet(folder / "none.parquet").footer[3].number == 0);
}

TEST_CASE("rows of another length than the vectors are an error") {
  const Scratch folder;
  const std::string file = (folder / "a.parquet").string();
  ParquetWriter writer(file, {"image", "embedding", 4});
  CHECK(message_of([&] {
          writer.append(std::vector<std::string>{"a", "b"}, std::vector<float>(4));
        }) == file + ": expected 8 numbers for 2 rows, got 4");
  CHECK(message_of([&] {
          ParquetWriter(file, {"image", "embedding", 0});
        }) == file + ": expected vectors with elements");
}

TEST_CASE("numbers, texts and lists of thrift have the bytes of its specification") {
  ThriftWriter writer;
  writer.i32(1, -1);
  writer.i64(3, 150);
  writer.text(4, "ab");
  writer.list_of_i32(5, {0, 64});
  writer.structure(20, [&] { writer.i32(2, 0); });
  CHECK(writer.finish() == std::string("\x15\x01"
                                       "\x26\xAC\x02"
                                       "\x18\x02"
                                       "ab"
                                       "\x19\x25\x00\x80\x01"
                                       "\xFC\x25\x00\x00"
                                       "\x00",
                                       19));
  ThriftWriter long_list;
  long_list.list_of_structures(1, 15, [](std::size_t) {});
  CHECK(long_list.finish() == std::string("\x19\xFC\x0F", 3) + std::string(16, '\0'));
  ThriftWriter wrong;
  wrong.i32(2, 1);
  CHECK(message_of([&] { wrong.i32(2, 1); }) == "a thrift struct: field 2 cannot follow field 2");
}

}  // namespace heddle::test

#include "experiments/data/recordio/record_index.h"

#include <doctest/doctest.h>

#include "tests/experiments/data/recordio/record_samples.h"

namespace heddle::test {
namespace {

/// A file with 12 bytes per record.
constexpr std::uint64_t record_bytes = 12;

void write_twenty_records(const Scratch& folder) {
  RecordWriter writer(folder / "a.rec");
  for (int i = 0; i < 20; ++i) writer.write(bytes_of("four"));
  writer.commit();
}

RecordIndex parsed(const Scratch& folder, std::string_view text) {
  write_text(folder / "a.idx", text);
  return read_record_index(folder / "a.idx", RecordFile(folder / "a.rec"));
}

std::vector<RecordPlace> places_of(const RecordIndex& index) {
  std::vector<RecordPlace> places;
  for (std::size_t i = 0; i < index.size(); ++i) places.push_back(index.place(i));
  return places;
}

std::vector<std::uint64_t> keys_of(const RecordIndex& index) {
  std::vector<std::uint64_t> keys;
  for (std::size_t i = 0; i < index.size(); ++i) keys.push_back(index.key(i));
  return keys;
}

using Keys = std::vector<std::uint64_t>;

}  // namespace

TEST_CASE("record index: entries are read back as they were written, in their order") {
  const Scratch folder;
  write_twenty_records(folder);
  for (const Keys& keys : {Keys{0, 1, 2, 3}, Keys{5, 6, 7}, Keys{3, 0, 17, 4}, Keys{0, 1, 3, 2}, Keys{9}}) {
    RecordIndex index;
    for (std::size_t i = 0; i < keys.size(); ++i) index.add({.offset = i * record_bytes, .key = keys[i]});
    CHECK(keys_of(index) == keys);
    CHECK(index.follows_file());
    write_index_file(folder / "b.idx", index);
    const RecordIndex again = read_record_index(folder / "b.idx", RecordFile(folder / "a.rec"));
    CHECK(places_of(again) == places_of(index));
    for (std::size_t i = 0; i < keys.size(); ++i) CHECK(again.find(keys[i]) == i);
    CHECK_FALSE(again.find(18));
  }
  CHECK(read_file(folder / "b.idx", 100) == "9\t0\n");
}

TEST_CASE("record index: lines may end as on Windows") {
  const Scratch folder;
  write_twenty_records(folder);
  CHECK(places_of(parsed(folder, "0\t0\r\n18446744073709551615\t24\r\n")) ==
        std::vector<RecordPlace>{{.offset = 0, .key = 0}, {.offset = 24, .key = ~std::uint64_t{0}}});
}

TEST_CASE("record index: a wrong line is refused with its number") {
  const Scratch folder;
  write_twenty_records(folder);
  const auto complaint = [&](std::string_view second_line) {
    return without_folder(message_of<InputError>([&] { parsed(folder, "0\t0\n" + std::string(second_line)); }), folder);
  };
  const auto unexpected = [](const char* line) {
    return std::string("a.idx, line 2: expected a key, a tab and an offset, got ") + line;
  };
  CHECK(complaint("-1\t12\n") == unexpected(R"("-1\t12")"));
  CHECK(complaint("1\t-12\n") == unexpected(R"("1\t-12")"));
  CHECK(complaint("+1\t12\n") == unexpected(R"("+1\t12")"));
  CHECK(complaint("1 12\n") == unexpected(R"("1 12")"));
  CHECK(complaint("1\t12 \n") == unexpected(R"("1\t12 ")"));
  CHECK(complaint("1\t12.0\n") == unexpected(R"("1\t12.0")"));
  CHECK(complaint("1\t\n") == unexpected(R"("1\t")"));
  CHECK(complaint("\n") == unexpected(R"("")"));
  CHECK(complaint("1\t12\r\r\n") == unexpected(R"("1\t12\r\r")"));
  CHECK(complaint("1\t12\n\n").starts_with("a.idx, line 3: expected a key"));
  CHECK(complaint("18446744073709551616\t12\n") == unexpected(R"("18446744073709551616\t12")"));
  CHECK(complaint("1\t18446744073709551616\n") == unexpected(R"("1\t18446744073709551616")"));
  CHECK(complaint("1\t240\n") == "a.idx, line 2: offset 240 is beyond the end of a.rec, which has 240 bytes");
  CHECK(complaint("1\t12") == "a.idx, line 2: truncated: the file ends within this line");
  CHECK(complaint("1\t12\n5\t24\n0\t36\n") == "a.idx, line 4: key 0 is already in line 1");
  CHECK(without_folder(message_of<InputError>([&] { parsed(folder, ""); }), folder) == "a.idx: the file is empty");
}

TEST_CASE("record index: sorting, cutting and erasing keep each key with its offset") {
  RecordIndex index;
  const Keys keys{4, 0, 3, 1, 2};
  for (const std::uint64_t key : keys) index.add({.offset = 100 * key, .key = key});
  CHECK_FALSE(index.follows_file());
  CHECK_FALSE(index.counts_up());
  RecordIndex cut = index;
  cut.keep(1, 3);
  CHECK(keys_of(cut) == Keys{0, 3, 1});
  index.sort_by_key();
  CHECK(index.counts_up());
  CHECK(index.follows_file());
  CHECK(keys_of(index) == Keys{0, 1, 2, 3, 4});
  index.keep(1, 4);
  CHECK(keys_of(index) == Keys{1, 2, 3, 4});
  index.erase({0, 2});
  CHECK(places_of(index) == std::vector<RecordPlace>{{.offset = 200, .key = 2}, {.offset = 400, .key = 4}});
  index.erase({});
  index.erase({0, 1});
  CHECK(index.size() == 0);
}

}  // namespace heddle::test

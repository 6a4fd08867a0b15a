#include "experiments/data/recordio/record_file.h"

#include <fstream>

#include <doctest/doctest.h>
#include <sys/mman.h>

#include "tests/experiments/data/recordio/record_samples.h"

namespace heddle::test {
namespace {

namespace fs = std::filesystem;

const Bytes magic = bytes_of_number(record_magic);

Bytes joined(std::initializer_list<Bytes> pieces) {
  Bytes all;
  for (const Bytes& piece : pieces) append(all, piece);
  return all;
}

Bytes file_of(const Scratch& folder, const std::vector<Bytes>& payloads) {
  RecordWriter writer(folder / "a.rec");
  for (const Bytes& payload : payloads) writer.write(payload);
  writer.commit();
  return read_bytes(folder / "a.rec");
}

std::vector<Bytes> payloads_of(const fs::path& path) {
  std::vector<Bytes> payloads;
  RecordFile(path).walk([&](RecordPlace place, const Record& record) {
    CHECK(place.key == payloads.size());
    payloads.emplace_back(record.bytes.begin(), record.bytes.end());
  });
  return payloads;
}

/// The error on reading every record of a file with these bytes.
std::string complaint(const Scratch& folder, const Bytes& bytes) {
  write_bytes(folder / "a.rec", bytes);
  return without_folder(message_of<InputError>([&] { payloads_of(folder / "a.rec"); }), folder);
}

std::string complaint_at(const Scratch& folder, std::uint64_t offset) {
  const RecordFile file(folder / "a.rec");
  std::vector<std::uint8_t> buffer;
  return without_folder(message_of<InputError>([&] { file.read({.offset = offset, .key = 7}, buffer); }), folder);
}

/// The resident bytes of the mappings of a file in this process.
std::uint64_t resident_bytes(const fs::path& path) {
  std::ifstream maps("/proc/self/smaps");
  std::uint64_t kilobytes = 0;
  bool is_ours = false;
  for (std::string line; std::getline(maps, line);) {
    if (line.find('-') < line.find(' ')) is_ours = line.ends_with(path.string());
    if (is_ours && line.starts_with("Rss:")) kilobytes += std::stoull(line.substr(4));
  }
  return kilobytes << 10;
}

}  // namespace

TEST_CASE("recordio: a record is magic number, kind and length, payload and zeros, as MXNet writes it") {
  const Scratch folder;
  CHECK(file_of(folder, {bytes_of("ab")}) == Bytes{0x0a, 0x23, 0xd7, 0xce, 2, 0, 0, 0, 'a', 'b', 0, 0});
  CHECK(file_of(folder, {{}, bytes_of("abcd")}) == joined({raw_part(0, {}), raw_part(0, bytes_of("abcd"))}));
  CHECK(file_of(folder, {magic}) == joined({raw_part(1, {}), raw_part(3, {})}));
  CHECK(file_of(folder, {joined({bytes_of("abcd"), magic, magic, bytes_of("x")})}) ==
        joined({raw_part(1, bytes_of("abcd")), raw_part(2, {}), raw_part(3, bytes_of("x"))}));
  const Bytes unaligned = joined({bytes_of("ab"), magic, bytes_of("cd")});
  CHECK(file_of(folder, {unaligned}) == raw_part(0, unaligned));
}

TEST_CASE("recordio: payloads of all lengths come back, with magic numbers at every position") {
  const Scratch folder;
  std::vector<Bytes> payloads;
  for (std::size_t length = 0; length <= 40; ++length) {
    Bytes plain(length);
    for (std::size_t i = 0; i < length; ++i) plain[i] = static_cast<std::uint8_t>(i + length);
    payloads.push_back(plain);
    for (std::size_t first = 0; first + 4 <= length; ++first) {
      Bytes one = plain;
      std::copy(magic.begin(), magic.end(), one.begin() + static_cast<std::ptrdiff_t>(first));
      payloads.push_back(one);
      for (std::size_t second = first + 4; second + 4 <= length; ++second) {
        Bytes two = one;
        std::copy(magic.begin(), magic.end(), two.begin() + static_cast<std::ptrdiff_t>(second));
        payloads.push_back(two);
      }
    }
  }
  const Bytes file = file_of(folder, payloads);
  CHECK(payloads_of(folder / "a.rec") == payloads);
  std::size_t parts = 0;
  for (std::size_t at = 0; at < file.size(); at += 4) parts += std::equal(magic.begin(), magic.end(), &file[at]);
  CHECK(parts > payloads.size() + 2000);
}

TEST_CASE("recordio: a record is read at its offset, a whole one without a copy") {
  const Scratch folder;
  RecordWriter writer(folder / "a.rec");
  const std::uint64_t first = writer.write(bytes_of("first"));
  const std::uint64_t split = writer.write(joined({magic, bytes_of("second")}));
  const std::uint64_t last = writer.write(bytes_of("third"));
  writer.commit();
  const RecordFile file(folder / "a.rec");
  std::vector<std::uint8_t> buffer;
  CHECK(first == 0);
  const Record whole = file.read({.offset = last, .key = 2}, buffer);
  CHECK(Bytes(whole.bytes.begin(), whole.bytes.end()) == bytes_of("third"));
  CHECK(whole.end == file.size());
  CHECK(buffer.empty());
  const Record put_together = file.read({.offset = split, .key = 1}, buffer);
  CHECK(buffer == joined({magic, bytes_of("second")}));
  CHECK(put_together.bytes.data() == buffer.data());
  CHECK(put_together.end == last);
  file.fetch(put_together);
  file.fetch(whole);
  CHECK(file.name(18).text() == (folder / "a.rec").string() + ", record 18");
}

TEST_CASE("recordio: errors in a file name the record's number and the byte") {
  const Scratch folder;
  const Bytes good = raw_part(0, bytes_of("good"));  // 12 bytes
  const auto after_good = [&](const Bytes& bytes) { return complaint(folder, joined({good, bytes})); };
  CHECK(complaint(folder, {}) == "a.rec: the file is empty");
  CHECK(after_good({1, 2, 3}) == "a.rec, record 1: truncated: the file ends 3 bytes after byte 12, within a header");
  CHECK(after_good(magic) == "a.rec, record 1: truncated: the file ends 4 bytes after byte 12, within a header");
  CHECK(after_good(Bytes(8)) == "a.rec, record 1: no record begins at byte 12: expected 0xced7230a, got 0x00000000");
  CHECK(after_good(raw_part(4, {})) == "a.rec, record 1: the header at byte 12 has kind 4, expected 0 to 3");
  CHECK(after_good(raw_part(7, {}, (1U << 29) - 1)) ==
        "a.rec, record 1: the header at byte 12 has kind 7, expected 0 to 3");
  CHECK(after_good(raw_part(0, bytes_of("four"), 5)) ==
        "a.rec, record 1: truncated: the 8 bytes from byte 20 on extend beyond the end of the file, which has 24");
  CHECK(after_good(raw_part(0, {}, (1U << 29) - 1)) ==
        "a.rec, record 1: truncated: the 536870912 bytes from byte 20 on extend beyond the end of the file, which has "
        "20");
  Bytes unpadded = raw_part(0, bytes_of("five5"));
  unpadded.resize(unpadded.size() - 3);
  CHECK(after_good(unpadded) ==
        "a.rec, record 1: truncated: the 8 bytes from byte 20 on extend beyond the end of the file, which has 25");
  CHECK(after_good(raw_part(2, {})) == "a.rec, record 1: the part at byte 12 continues another record");
  CHECK(after_good(raw_part(3, {})) == "a.rec, record 1: the part at byte 12 continues another record");
  CHECK(after_good(raw_part(1, {})) ==
        "a.rec, record 1: truncated: the file ends at byte 20, where the record continues");
  CHECK(after_good(joined({raw_part(1, {}), raw_part(2, bytes_of("abcd")), good})) ==
        "a.rec, record 1: its last part is missing: another record begins at byte 32");
  CHECK(after_good(joined({raw_part(1, {}), raw_part(1, {})})) ==
        "a.rec, record 1: its last part is missing: another record begins at byte 20");
  CHECK(after_good(joined({raw_part(1, {}), raw_part(3, {}, 9)})) ==
        "a.rec, record 1: truncated: the 12 bytes from byte 28 on extend beyond the end of the file, which has 28");
}

TEST_CASE("recordio: an offset that is not the beginning of a record is refused") {
  const Scratch folder;
  file_of(folder, {bytes_of("abcdefgh"), joined({bytes_of("abcd"), magic})});
  CHECK(complaint_at(folder, 8) == "a.rec, record 7: no record begins at byte 8: expected 0xced7230a, got 0x64636261");
  CHECK(complaint_at(folder, 6) == "a.rec, record 7: byte 6 is not a multiple of 4, where records begin");
  CHECK(complaint_at(folder, 28) == "a.rec, record 7: the part at byte 28 continues another record");
  CHECK(complaint_at(folder, 36) == "a.rec, record 7: byte 36 is beyond the end of the file, which has 36 bytes");
  CHECK(complaint_at(folder, ~std::uint64_t{3}) ==
        "a.rec, record 7: byte 18446744073709551612 is beyond the end of the file, which has 36 bytes");
}

TEST_CASE("recordio: padding that is not zero is ignored, as in MXNet") {
  const Scratch folder;
  Bytes record = raw_part(0, bytes_of("a"));
  record.back() = 0xff;
  write_bytes(folder / "a.rec", joined({record, raw_part(0, bytes_of("b"))}));
  CHECK(payloads_of(folder / "a.rec") == std::vector<Bytes>{bytes_of("a"), bytes_of("b")});
}

TEST_CASE("recordio: an unreadable file is refused with the system's reason") {
  const Scratch folder;
  const auto refusal = [&](const char* name) {
    return without_folder(message_of<InputError>([&] { RecordFile file(folder / name); }), folder);
  };
  fs::create_directory(folder / "folder.rec");
  fs::create_symlink("circle.rec", folder / "circle.rec");
  CHECK(refusal("none.rec") == "none.rec: cannot be read: No such file or directory");
  CHECK(refusal("folder.rec") == "folder.rec: cannot be read: it is not a regular file");
  CHECK(refusal("circle.rec") == "circle.rec: cannot be read: Too many levels of symbolic links");
}

TEST_CASE("recordio: a file that is truncated while it is open is an error, not a crash") {
  const Scratch folder;
  file_of(folder, {Bytes(10000), bytes_of("second")});
  const RecordFile file(folder / "a.rec");
  fs::resize_file(folder / "a.rec", 100);
  std::vector<std::uint8_t> buffer;
  CHECK(without_folder(message_of<InputError>([&] { file.read({.offset = 10008, .key = 1}, buffer); }), folder) ==
        "a.rec, record 1: the file has 100 bytes, 9924 fewer than when it was opened");
}

TEST_CASE("recordio: a writer that is not committed leaves the old file, and records are shorter than 2^29 bytes") {
  const Scratch folder;
  file_of(folder, {bytes_of("old")});
  constexpr std::size_t length = std::size_t{1} << 29;
  void* const pages = ::mmap(nullptr, length, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  REQUIRE(pages != MAP_FAILED);
  {
    RecordWriter writer(folder / "a.rec");
    writer.write(bytes_of("new"));
    CHECK(without_folder(message_of<InputError>([&] {
                           writer.write({static_cast<const std::uint8_t*>(pages), length});
                         }),
                         folder) == "a.rec, record 1: has 536870912 bytes; records have fewer than 536870912");
  }
  ::munmap(pages, length);
  CHECK(payloads_of(folder / "a.rec") == std::vector<Bytes>{bytes_of("old")});
  CHECK(folder.files() == 1);
}

TEST_CASE("recordio: reading a file repeatedly takes bounded memory") {
  const Scratch folder;
  constexpr std::uint64_t size = 32 << 20;
  constexpr std::uint64_t max_resident = 4 << 20;
  constexpr std::uint64_t step = 4096;
  write_bytes(folder / "a", Bytes(size, 'x'));
  const MappedFile file(folder / "a", max_resident);
  std::uint64_t largest = 0;
  std::uint64_t sum = 0;
  const auto read_all = [&] {
    for (std::uint64_t at = 0; at < size; at += step) {
      file.count(step);
      sum += file.bytes()[at];
    }
  };
  for (const auto order : {MappedFile::Order::ascending, MappedFile::Order::random}) {
    file.expect(order);
    read_all();
    largest = std::max(largest, resident_bytes(folder / "a"));
  }
  CHECK(sum == 2 * size / step * 'x');
  CHECK(largest <= max_resident + (std::uint64_t{64} << 10));
}

}  // namespace heddle::test

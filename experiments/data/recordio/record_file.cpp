#include "experiments/data/recordio/record_file.h"

#include <array>
#include <bit>
#include <cstring>

#include "framework/error.h"

namespace heddle {

static_assert(std::endian::native == std::endian::little, "headers are read and written as they lie in memory");

namespace {

constexpr std::uint64_t part_header_bytes = 8;
constexpr std::uint64_t alignment = 4;
constexpr int length_bits = 29;
/// Kinds of parts.
constexpr std::uint32_t whole_record = 0;
constexpr std::uint32_t first_part = 1;
constexpr std::uint32_t middle_part = 2;
constexpr std::uint32_t last_part = 3;

std::uint64_t padded(std::uint64_t length) {
  return (length + alignment - 1) / alignment * alignment;
}

std::uint32_t word_at(std::span<const std::uint8_t> bytes, std::uint64_t offset) {
  std::uint32_t word = 0;
  std::memcpy(&word, bytes.data() + offset, sizeof word);
  return word;
}

template <class... Args>
[[noreturn]] void fail_in(const RecordName& name, fmt::format_string<Args...> format, Args&&... args) {
  fail<InputError>("{}: {}", name.text(), fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace

std::string RecordName::text() const {
  return fmt::format("{}, record {}", file.string(), key);
}

RecordFile::RecordFile(const std::filesystem::path& path) : file_(path) {
  if (size() == 0) fail<InputError>("{}: the file is empty", path.string());
}

Record RecordFile::read(RecordPlace place, std::vector<std::uint8_t>& buffer) const {
  const RecordName name = this->name(place.key);
  if (const std::uint64_t missing = file_.missing_bytes(); missing > 0)
    fail_in(name, "the file has {} bytes, {} fewer than when it was opened", size() - missing, missing);
  const Part part = this->part(place.offset, name);
  if (part.kind == middle_part || part.kind == last_part)
    fail_in(name, "the part at byte {} continues another record", place.offset);
  const Record record = part.kind == whole_record ? Record{part.bytes, part.end} : join(part, name, buffer);
  file_.count(record.end - place.offset);
  return record;
}

RecordFile::Part RecordFile::part(std::uint64_t offset, const RecordName& name) const {
  if (offset >= size()) fail_in(name, "byte {} is beyond the end of the file, which has {} bytes", offset, size());
  if (offset % alignment != 0) fail_in(name, "byte {} is not a multiple of {}, where records begin", offset, alignment);
  if (size() - offset < part_header_bytes)
    fail_in(name, "truncated: the file ends {} bytes after byte {}, within a header", size() - offset, offset);
  const std::uint32_t magic = word_at(file_.bytes(), offset);
  if (magic != record_magic)
    fail_in(name, "no record begins at byte {}: expected {:#010x}, got {:#010x}", offset, record_magic, magic);
  const std::uint32_t word = word_at(file_.bytes(), offset + sizeof magic);
  const std::uint32_t kind = word >> length_bits;
  if (kind > last_part) fail_in(name, "the header at byte {} has kind {}, expected 0 to 3", offset, kind);
  const std::uint64_t length = word & (record_length_limit - 1);
  const std::uint64_t begin = offset + part_header_bytes;
  if (padded(length) > size() - begin)
    fail_in(name, "truncated: the {} bytes from byte {} on extend beyond the end of the file, which has {}",
            padded(length), begin, size());
  return {.kind = kind, .bytes = file_.bytes().subspan(begin, length), .end = begin + padded(length)};
}

Record RecordFile::join(Part part, const RecordName& name, std::vector<std::uint8_t>& buffer) const {
  constexpr auto magic = std::bit_cast<std::array<std::uint8_t, sizeof record_magic>>(record_magic);
  buffer.assign(part.bytes.begin(), part.bytes.end());
  while (part.kind != last_part) {
    const std::uint64_t offset = part.end;
    if (offset == size()) fail_in(name, "truncated: the file ends at byte {}, where the record continues", offset);
    part = this->part(offset, name);
    if (part.kind == whole_record || part.kind == first_part)
      fail_in(name, "its last part is missing: another record begins at byte {}", offset);
    buffer.insert(buffer.end(), magic.begin(), magic.end());
    buffer.insert(buffer.end(), part.bytes.begin(), part.bytes.end());
  }
  return {buffer, part.end};
}

void RecordFile::fetch(const Record& record) const {
  const auto offset = static_cast<std::uint64_t>(record.bytes.data() - file_.bytes().data());
  if (offset < size()) file_.will_read(offset, record.bytes.size());  // otherwise the bytes are a copy
}

std::uint64_t RecordWriter::write(std::span<const std::uint8_t> payload) {
  if (payload.size() >= record_length_limit)
    fail<InputError>("{}: has {} bytes; records have fewer than {}", RecordName{file_.target(), records_}.text(),
                     payload.size(), record_length_limit);
  const std::uint64_t offset = offset_;
  std::uint64_t begin = 0;
  for (std::uint64_t at = 0; at + alignment <= payload.size(); at += alignment) {
    if (word_at(payload, at) != record_magic) continue;
    write_part(begin == 0 ? first_part : middle_part, payload.subspan(begin, at - begin));
    begin = at + alignment;
  }
  write_part(begin == 0 ? whole_record : last_part, payload.subspan(begin));
  ++records_;
  return offset;
}

void RecordWriter::rewrite(std::uint64_t offset, std::span<const std::uint8_t> payload) {
  file_.write_at(offset + part_header_bytes, std::as_bytes(payload));
}

void RecordWriter::write_part(std::uint32_t kind, std::span<const std::uint8_t> bytes) {
  const std::array<std::uint32_t, 2> header{record_magic,
                                            kind << length_bits | static_cast<std::uint32_t>(bytes.size())};
  constexpr std::array<std::byte, alignment> zeros{};
  file_.write(std::as_bytes(std::span(header)));
  file_.write(std::as_bytes(bytes));
  file_.write(std::span(zeros).first(padded(bytes.size()) - bytes.size()));
  offset_ += part_header_bytes + padded(bytes.size());
}

}  // namespace heddle

#include "framework/files/zip_file.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include <zlib.h>

#include "framework/description/printable.h"
#include "framework/error.h"

namespace heddle {

namespace {

// The signatures and sizes of the records (PKWARE's APPNOTE.TXT).
constexpr std::uint32_t local_header = 0x04034b50;
constexpr std::uint32_t directory_header = 0x02014b50;
constexpr std::uint32_t directory_end = 0x06054b50;
constexpr std::uint32_t directory_end_64 = 0x06064b50;
constexpr std::uint32_t directory_locator_64 = 0x07064b50;
constexpr std::uint64_t local_header_bytes = 30;
constexpr std::uint64_t directory_header_bytes = 46;
constexpr std::uint64_t directory_end_bytes = 22;
constexpr std::uint64_t locator_bytes = 20;
constexpr std::uint64_t directory_end_64_bytes = 56;
constexpr std::uint64_t max_comment_bytes = 65535;
constexpr std::uint32_t elsewhere_32 = 0xFFFFFFFF;  // the zip64 record has the number
constexpr std::uint16_t elsewhere_16 = 0xFFFF;
// No byte of deflated data unpacks to more than this.
constexpr std::uint64_t max_expansion = 1040;

/// Little-endian numbers within bytes that may be too few.
class Record {
 public:
  explicit Record(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::uint64_t number(std::uint64_t at, std::size_t bytes) const {
    if (at > bytes_.size() || bytes > bytes_.size() - at) fail<InputError>("its directory is cut off");
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes; ++i)
      value |= static_cast<std::uint64_t>(bytes_[static_cast<std::size_t>(at) + i]) << (8 * i);
    return value;
  }
  std::uint16_t u16(std::uint64_t at) const { return static_cast<std::uint16_t>(number(at, 2)); }
  std::uint32_t u32(std::uint64_t at) const { return static_cast<std::uint32_t>(number(at, 4)); }
  std::uint64_t u64(std::uint64_t at) const { return number(at, 8); }
  std::string text(std::uint64_t at, std::uint64_t length) const {
    if (at > bytes_.size() || length > bytes_.size() - at) fail<InputError>("its directory is cut off");
    const auto* const begin = reinterpret_cast<const char*>(bytes_.data()) + at;
    return {begin, begin + length};
  }

 private:
  std::span<const std::byte> bytes_;
};

std::vector<std::byte> bytes_at(const FileDescriptor& file, std::uint64_t position, std::uint64_t count) {
  const std::uint64_t size = file.size();
  if (position > size || count > size - position) fail<InputError>("its directory is cut off");
  std::vector<std::byte> bytes(static_cast<std::size_t>(count));
  file.read_at(position, bytes);
  return bytes;
}

struct Directory {
  std::uint64_t position = 0;
  std::uint64_t bytes = 0;
  std::uint64_t members = 0;
};

Directory find_directory(const FileDescriptor& file) {
  const std::uint64_t size = file.size();
  const std::uint64_t tail_bytes = std::min(size, directory_end_bytes + max_comment_bytes);
  const std::vector<std::byte> tail = bytes_at(file, size - tail_bytes, tail_bytes);
  const Record record(tail);
  for (std::uint64_t at = tail_bytes; at-- > 0;) {
    if (tail_bytes - at < directory_end_bytes || record.u32(at) != directory_end) continue;
    Directory found{.position = record.u32(at + 16), .bytes = record.u32(at + 12), .members = record.u16(at + 10)};
    const bool is_64 = found.position == elsewhere_32 || found.bytes == elsewhere_32 || found.members == elsewhere_16;
    if (!is_64 || at < locator_bytes || record.u32(at - locator_bytes) != directory_locator_64) return found;
    const std::vector<std::byte> end = bytes_at(file, record.u64(at - locator_bytes + 8), directory_end_64_bytes);
    const Record end_64(end);
    if (end_64.u32(0) != directory_end_64) fail<InputError>("its zip64 directory is damaged");
    return {.position = end_64.u64(48), .bytes = end_64.u64(40), .members = end_64.u64(32)};
  }
  fail<InputError>("it has no directory: the file is cut off");
}

/// Takes from the extra field of a member the numbers of 64 bits that its header lacks, in their order.
void take_zip64(const Record& record, std::uint64_t at, std::uint64_t bytes, ZipFile::Member& member) {
  constexpr std::uint16_t zip64 = 1;
  for (const std::uint64_t end = at + bytes; at + 4 <= end;) {
    const std::uint64_t length = record.u16(at + 2);
    std::uint64_t number = at + 4;
    if (record.u16(at) == zip64)
      for (std::uint64_t* value : {&member.size, &member.packed, &member.position})
        if (*value == elsewhere_32) {
          *value = record.u64(number);
          number += 8;
        }
    at += 4 + length;
  }
}

std::vector<std::byte> inflated(const std::vector<std::byte>& packed, std::uint64_t size) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(size));
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) fail<InputError>("zlib has no memory");
  // zlib reads and writes at most 4 GiB at a time.
  constexpr std::uint64_t max_step = std::numeric_limits<uInt>::max();
  std::uint64_t read = 0;
  std::uint64_t written = 0;
  int status = Z_OK;
  while (status == Z_OK) {
    const std::uint64_t in = std::min<std::uint64_t>(packed.size() - read, max_step);
    const std::uint64_t out = std::min<std::uint64_t>(size - written, max_step);
    // zlib's interface is older than const.
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data() + read));  // NOLINT
    stream.avail_in = static_cast<uInt>(in);
    stream.next_out = reinterpret_cast<Bytef*>(bytes.data() + written);
    stream.avail_out = static_cast<uInt>(out);
    status = inflate(&stream, Z_NO_FLUSH);
    const std::uint64_t consumed = in - stream.avail_in;
    const std::uint64_t produced = out - stream.avail_out;
    if (status == Z_OK && consumed == 0 && produced == 0) status = Z_BUF_ERROR;
    read += consumed;
    written += produced;
  }
  inflateEnd(&stream);
  if (status != Z_STREAM_END || written != size) bytes.clear();
  return bytes;
}

std::uint32_t checksum_of(std::span<const std::byte> bytes) {
  return static_cast<std::uint32_t>(
      ::crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<z_size_t>(bytes.size())));
}

}  // namespace

bool ZipFile::is_zip(const std::filesystem::path& path) {
  const FileDescriptor file = FileDescriptor::open_for_reading(path);
  if (file.size() < 4) return false;
  std::array<std::byte, 4> begin{};
  file.read_at(0, begin);
  return Record(begin).u32(0) == local_header;
}

ZipFile::ZipFile(const std::filesystem::path& path)
    : file_(FileDescriptor::open_for_reading(path)), size_(file_.size()) {
  try {
    const Directory directory = find_directory(file_);
    read_directory(directory.position, directory.bytes, directory.members);
  } catch (const InputError& error) {
    fail<InputError>("{}: is not a valid zip file: {}", path.string(), error.what());
  }
}

void ZipFile::read_directory(std::uint64_t position, std::uint64_t bytes, std::uint64_t members) {
  const std::vector<std::byte> all = bytes_at(file_, position, bytes);
  const Record record(all);
  std::uint64_t at = 0;
  for (std::uint64_t i = 0; i < members; ++i) {
    if (record.u32(at) != directory_header) fail<InputError>("its directory is damaged at member {}", i);
    const std::uint16_t flags = record.u16(at + 8);
    const std::uint16_t method = record.u16(at + 10);
    const std::uint64_t name = record.u16(at + 28);
    const std::uint64_t extra = record.u16(at + 30);
    Member member{.name = record.text(at + directory_header_bytes, name),
                  .size = record.u32(at + 24),
                  .packed = record.u32(at + 20),
                  .position = record.u32(at + 42),
                  .checksum = record.u32(at + 16),
                  .is_deflated = method == Z_DEFLATED};
    take_zip64(record, at + directory_header_bytes + name, extra, member);
    if ((flags & 1) != 0) fail<InputError>("its member {} is encrypted", in_quotes(member.name));
    if (method != 0 && method != Z_DEFLATED)
      fail<InputError>("its member {} is packed by method {}: expected stored or deflated", in_quotes(member.name),
                       method);
    if (member.packed > size_ || (!member.is_deflated && member.size != member.packed) ||
        member.size / max_expansion > member.packed)
      fail<InputError>("its member {} cannot have {} bytes", in_quotes(member.name), member.size);
    members_.push_back(std::move(member));
    at += directory_header_bytes + name + extra + record.u16(at + 32);
  }
}

const ZipFile::Member* ZipFile::find(std::string_view end) const {
  const Member* found = nullptr;
  for (const Member& member : members_) {
    if (!member.name.ends_with(end)) continue;
    if (found != nullptr) fail<InputError>("{}: has several members {}", path().string(), end);
    found = &member;
  }
  return found;
}

const ZipFile::Member* ZipFile::member(std::string_view name) const {
  const auto found = std::find_if(members_.begin(), members_.end(), [&](const Member& m) { return m.name == name; });
  return found == members_.end() ? nullptr : &*found;
}

std::vector<std::byte> ZipFile::read(const Member& member, std::uint64_t max_bytes) const {
  if (member.size > max_bytes)
    fail<InputError>("{}: member {} has {} bytes: expected at most {}", path().string(), in_quotes(member.name),
                     member.size, max_bytes);
  std::vector<std::byte> bytes;
  try {
    const std::vector<std::byte> header = bytes_at(file_, member.position, local_header_bytes);
    const Record record(header);
    if (record.u32(0) != local_header) fail<InputError>("it has no header");
    const std::uint64_t begin = member.position + local_header_bytes + record.u16(26) + record.u16(28);
    bytes = bytes_at(file_, begin, member.packed);
    if (member.is_deflated) bytes = inflated(bytes, member.size);
    if (bytes.size() != member.size || checksum_of(bytes) != member.checksum)
      fail<InputError>("its checksum differs from the saved one");
  } catch (const InputError& error) {
    fail<InputError>("{}: member {} is damaged: {}", path().string(), in_quotes(member.name), error.what());
  }
  return bytes;
}

}  // namespace heddle

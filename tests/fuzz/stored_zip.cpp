#include "tests/fuzz/stored_zip.h"

#include <cstdint>

#include <zlib.h>

namespace heddle::test {

namespace {

/// Appends a number of `bytes` bytes, little-endian.
void append(std::string& text, std::size_t bytes, std::uint64_t number) {
  for (; bytes > 0; --bytes, number >>= 8) text += static_cast<char>(number & 0xFF);
}

/// The fields that a member's local header and its entry in the directory have in common.
std::string fields_of(const StoredMember& member) {
  std::string fields;
  append(fields, 2, 20);  // the version that is needed to extract it
  append(fields, 8, 0);   // flags, method, time and date
  append(fields, 4,
         ::crc32(0, reinterpret_cast<const Bytef*>(member.bytes.data()), static_cast<uInt>(member.bytes.size())));
  append(fields, 4, member.bytes.size());
  append(fields, 4, member.bytes.size());
  append(fields, 2, member.name.size());
  append(fields, 2, 0);  // extra fields
  return fields;
}

}  // namespace

std::string stored_zip(const std::vector<StoredMember>& members) {
  std::string zip;
  std::string directory;
  for (const StoredMember& member : members) {
    const std::string fields = fields_of(member);
    directory += "PK\x01\x02";
    append(directory, 2, 20);  // the version that made it
    directory += fields;
    append(directory, 10, 0);  // comment, disk and attributes
    append(directory, 4, zip.size());
    directory += member.name;
    zip += "PK\x03\x04";
    zip += fields;
    zip += member.name;
    zip += member.bytes;
  }
  const std::size_t position = zip.size();
  zip += directory;
  zip += "PK\x05\x06";
  append(zip, 4, 0);  // disks
  append(zip, 2, members.size());
  append(zip, 2, members.size());
  append(zip, 4, directory.size());
  append(zip, 4, position);
  append(zip, 2, 0);  // comment
  return zip;
}

}  // namespace heddle::test

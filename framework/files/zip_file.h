// Reads zip files, as PyTorch writes its tensors: members that are stored or deflated, also of more than 4 GiB (zip64).
// The reader trusts nothing: every fault of a file is an InputError that names the file and the member.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "framework/files/atomic_file.h"

namespace heddle {

class ZipFile {
 public:
  struct Member {
    std::string name;
    std::uint64_t size = 0;
    std::uint64_t packed = 0;    // bytes in the file
    std::uint64_t position = 0;  // of its local header
    std::uint32_t checksum = 0;  // CRC-32
    bool is_deflated = false;
  };

  /// Whether a file begins as zip files do. InputError if it cannot be read.
  static bool is_zip(const std::filesystem::path& path);

  /// Reads the directory only. InputError if there is none, or if it has a member that is encrypted or packed
  /// otherwise.
  explicit ZipFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  const std::vector<Member>& members() const { return members_; }
  /// The only member whose name ends so; null if there is none. InputError if there are several.
  const Member* find(std::string_view end) const;
  /// The member of this name; null if there is none.
  const Member* member(std::string_view name) const;
  /// A whole member. InputError if it is not as it was packed, or has more than `max_bytes`: a deflated member may take
  /// a thousand times the bytes that it has in the file.
  std::vector<std::byte> read(const Member& member, std::uint64_t max_bytes) const;

 private:
  void read_directory(std::uint64_t position, std::uint64_t bytes, std::uint64_t members);

  FileDescriptor file_;
  std::uint64_t size_;
  std::vector<Member> members_;
};

}  // namespace heddle

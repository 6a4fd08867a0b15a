// A file that is read through a memory mapping. The system caches as many of the file's pages as it has room for; the
// resident memory of this process stays below a limit, however much of the file has been read.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "framework/files/atomic_file.h"

namespace heddle {

/// Const members may be called from several threads concurrently.
class MappedFile {
 public:
  /// InputError if the file cannot be opened or is not a regular file. Once about `max_resident` bytes have been read,
  /// all pages are given back to the system; they are mapped again when they are read again.
  explicit MappedFile(const std::filesystem::path& path, std::uint64_t max_resident = std::uint64_t{256} << 20);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::filesystem::path& path() const { return file_.path(); }
  /// The size when the file was opened.
  std::uint64_t size() const { return bytes_.size(); }
  /// The whole file. These bytes change if another program changes the file.
  std::span<const std::uint8_t> bytes() const { return bytes_; }

  /// How much shorter the file is than when it was opened. Reading beyond its end would kill the process.
  std::uint64_t missing_bytes() const;
  /// Must be called for every piece that is read, so that pages are given back in time.
  void count(std::uint64_t bytes) const;

  /// Advice to the system: whether it pays to read ahead.
  enum class Order { ascending, random };
  void expect(Order order) const;
  /// Asks the system to read bytes of the file into memory in one request; returns immediately.
  void will_read(std::uint64_t offset, std::uint64_t bytes) const;

 private:
  FileDescriptor file_;
  std::span<const std::uint8_t> bytes_;
  std::uint64_t max_resident_;
  mutable std::atomic<std::uint64_t> counted_ = 0;
};

}  // namespace heddle

// A file that is read through a mapping into memory. The system keeps the file's pages where there is room for them;
// what counts as this process's own memory stays below a limit, however much of the file has been read.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "framework/files/atomic_file.h"

namespace heddle {

/// Every const member may be called from several threads at once.
class MappedFile {
 public:
  /// InputError if the file cannot be opened or is not a plain file. Once about `most_resident` bytes have been read,
  /// all pages are given back to the system; whoever reads them again gets them again.
  explicit MappedFile(const std::filesystem::path& path, std::uint64_t most_resident = std::uint64_t{256} << 20);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::filesystem::path& path() const { return file_.path(); }
  /// The size when the file was opened.
  std::uint64_t size() const { return bytes_.size(); }
  /// All of it. Another program that changes the file changes these bytes, too.
  std::span<const std::uint8_t> bytes() const { return bytes_; }

  /// InputError if the file is shorter than when it was opened: touching bytes behind its end would kill the process.
  void check_size() const;
  /// To be called for every piece that is read.
  void count(std::uint64_t bytes) const;

  /// Advice to the system: whether it pays to read ahead.
  enum class Order { ascending, random };
  void expect(Order order) const;
  /// Has bytes of the file read into memory in one go; returns at once.
  void will_read(std::uint64_t offset, std::uint64_t bytes) const;

 private:
  FileDescriptor file_;
  std::span<const std::uint8_t> bytes_;
  std::uint64_t most_resident_;
  mutable std::atomic<std::uint64_t> counted_ = 0;
};

}  // namespace heddle

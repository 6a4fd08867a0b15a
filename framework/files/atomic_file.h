// Files that are complete or absent: data are written to a temporary file beside the target, which replaces the target
// only once it is on disk. A reader never sees half a file, and a run that dies leaves the old one. Where the file
// system allows it, the temporary file has no name until then, so that it vanishes with the process, however that ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

namespace heddle {

/// `PATH: cannot be written: ` and the system's reason: a DiskError if the disk is the reason, otherwise an InputError.
[[noreturn]] void fail_to_write(const std::filesystem::path& path, std::error_code reason,
                                std::string_view fault = "cannot be written");

/// An open file, which the destructor closes. InputErrors and DiskErrors name the path and the system's reason.
class FileDescriptor {
 public:
  /// Opens a file for reading; InputError if it cannot be opened or is not a regular file.
  static FileDescriptor open_for_reading(const std::filesystem::path& path);
  /// Opens a file for appending and creates it if it is absent; InputError if it cannot be opened.
  static FileDescriptor open_for_appending(const std::filesystem::path& path);
  FileDescriptor(int descriptor, std::filesystem::path path) : descriptor_(descriptor), path_(std::move(path)) {}
  ~FileDescriptor() { close(); }
  FileDescriptor(FileDescriptor&& other) noexcept;
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;

  int get() const { return descriptor_; }
  const std::filesystem::path& path() const { return path_; }
  std::uint64_t size() const;
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  /// Writes as many of the first bytes as the disk takes at once, and returns their number.
  std::size_t write_some(std::span<const std::byte> bytes);
  /// Writes past the system's cache, to the disk. Returns false, and has written nothing, where the file system cannot:
  /// most of them need memory, a size and a position that are multiples of a page.
  bool write_past_cache(std::span<const std::byte> pages);
  /// Removes the contents.
  void truncate();
  /// Writes over what begins at this position.
  void write_at(std::uint64_t position, std::span<const std::byte> bytes);
  /// Fills `bytes` from this position on; InputError if the file is too short.
  void read_at(std::uint64_t position, std::span<std::byte> bytes) const;
  /// Waits until everything that was written is on disk.
  void sync();
  void close();

 private:
  int descriptor_ = -1;
  std::filesystem::path path_;
};

/// How a file gets to the disk. Past the system's cache, a large file takes less of the processor's time, and leaves
/// the cache to others, but is then read from the disk.
enum class DiskCache { used, bypassed };

/// A file that is written in pieces. Without `commit` the target is left as it was and the temporary file is removed.
class AtomicFile {
 public:
  /// InputError if no file can be created in the target's folder. Some file systems have no way past the cache: there
  /// it is used.
  explicit AtomicFile(std::filesystem::path target, DiskCache cache = DiskCache::used);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  const std::filesystem::path& target() const { return target_; }
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  /// Writes over what was written before, from this position on.
  void write_at(std::uint64_t position, std::span<const std::byte> bytes);
  /// Brings everything to disk under the temporary name, so that of several files all are complete before the first
  /// one is committed.
  void finish();
  void commit();

 private:
  /// Creates a file without a name in the target's folder. Returns false where the file system has no such files.
  bool open_unnamed();
  /// Creates a file under a temporary name, which the destructor removes.
  void open_named();
  /// Gives the file a temporary name if it has none.
  void name();
  /// Writes the buffer.
  void flush();

  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };

  std::filesystem::path target_;
  std::filesystem::path temporary_;  // empty: the file has no name
  FileDescriptor file_;
  bool bypasses_;  // as long as the position is a multiple of the buffer's size
  std::size_t capacity_;
  std::unique_ptr<std::byte, Free> buffer_;  // many small writes cost few system calls
  std::size_t buffered_ = 0;
};

void write_file_atomically(const std::filesystem::path& target, std::string_view contents);
/// Brings the names of a folder's files to disk, where the file system can.
void sync_folder(const std::filesystem::path& path);
/// Makes a folder and those around it, if they do not exist.
void make_folder(const std::filesystem::path& path);
/// The whole file as text; InputError if it is longer than `limit` bytes.
std::string read_file(const std::filesystem::path& path, std::uint64_t limit);

}  // namespace heddle

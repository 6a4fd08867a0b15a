#include "framework/files/atomic_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "framework/error.h"
#include "framework/files/disk_page.h"

namespace heddle {

namespace {

bool is_on_page(const void* memory) {
  return reinterpret_cast<std::uintptr_t>(memory) % disk_page == 0;
}

std::error_code system_error(int error) {
  return {error, std::generic_category()};
}

std::string reason(int error) {
  return system_error(error).message();
}

std::filesystem::path folder_of(const std::filesystem::path& target) {
  return target.has_parent_path() ? target.parent_path() : std::filesystem::path(".");
}

/// A device or a pipe would be replaced by a file, and the data would not go where they should.
void check_replaceable(const std::filesystem::path& target) {
  std::error_code unknown;
  const auto status = std::filesystem::status(target, unknown);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status) &&
      !std::filesystem::is_directory(status))
    fail<InputError>("{}: cannot be written: it is not a regular file", target.string());
}

/// Calls `create` with names in the target's folder until it does not return EEXIST, and returns that name. The names
/// are short and do not contain the target's, which may be as long as names can be. `create` returns an errno or 0.
template <class Create>
std::filesystem::path create_temporary(const std::filesystem::path& target, Create create) {
  constexpr int max_attempts = 1000;  // a killed run with the same process id may have left some
  for (int attempt = 0;; ++attempt) {
    std::filesystem::path path = folder_of(target) / fmt::format(".heddle-{}-{}.tmp", ::getpid(), attempt);
    const int error = create(path);
    if (error == 0) return path;
    if (error != EEXIST || attempt == max_attempts) fail_to_write(target, system_error(error));
  }
}

/// The name through which a file without one can be given one.
std::string name_of_descriptor(int descriptor) {
  return fmt::format("/proc/self/fd/{}", descriptor);
}

}  // namespace

void fail_to_write(const std::filesystem::path& path, std::error_code reason, std::string_view fault) {
  const std::string text = fmt::format("{}: {}: {}", path.string(), fault, reason.message());
  for (const int error : {ENOSPC, EDQUOT, EFBIG, EIO, EROFS, ESTALE})
    if (reason.value() == error) throw DiskError(text);
  throw InputError(text);
}

FileDescriptor FileDescriptor::open_for_reading(const std::filesystem::path& path) {
  // Non-blocking, because opening a pipe would wait for its writer.
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK), path);
  if (file.descriptor_ < 0) fail<InputError>("{}: cannot be read: {}", path.string(), reason(errno));
  struct stat status {};
  if (::fstat(file.descriptor_, &status) != 0 || !S_ISREG(status.st_mode))
    fail<InputError>("{}: cannot be read: it is not a regular file", path.string());
  return file;
}

FileDescriptor FileDescriptor::open_for_appending(const std::filesystem::path& path) {
  FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666), path);
  if (file.descriptor_ < 0) fail_to_write(path, system_error(errno));
  return file;
}

FileDescriptor::FileDescriptor(FileDescriptor&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), path_(std::move(other.path_)) {}

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  if (this == &other) return *this;
  close();
  descriptor_ = std::exchange(other.descriptor_, -1);
  path_ = std::move(other.path_);
  return *this;
}

std::uint64_t FileDescriptor::size() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) fail<InputError>("{}: cannot be read: {}", path_.string(), reason(errno));
  return static_cast<std::uint64_t>(status.st_size);
}

void FileDescriptor::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) bytes = bytes.subspan(write_some(bytes));
}

std::size_t FileDescriptor::write_some(std::span<const std::byte> bytes) {
  const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
  if (written >= 0) return static_cast<std::size_t>(written);
  if (errno != EINTR) fail_to_write(path_, system_error(errno));
  return 0;
}

bool FileDescriptor::write_past_cache(std::span<const std::byte> pages) {
  const int flags = ::fcntl(descriptor_, F_GETFL);
  if (flags < 0 || ::fcntl(descriptor_, F_SETFL, flags | O_DIRECT) != 0) return false;
  const ssize_t written = ::write(descriptor_, pages.data(), pages.size());
  ::fcntl(descriptor_, F_SETFL, flags);
  if (written < 0) return false;  // writing through the cache gives the reason, if it fails, too
  write(pages.subspan(static_cast<std::size_t>(written)));  // the rest, after a signal or on a full disk
  return true;
}

void FileDescriptor::truncate() {
  if (::ftruncate(descriptor_, 0) != 0) fail_to_write(path_, system_error(errno));
}

void FileDescriptor::write_at(std::uint64_t position, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(position));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_to_write(path_, system_error(errno));
    position += static_cast<std::uint64_t>(written);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void FileDescriptor::read_at(std::uint64_t position, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t got = ::pread(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(position));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail<InputError>("{}: cannot be read: {}", path_.string(), reason(errno));
    if (got == 0) fail<InputError>("{}: ends at byte {}, {} bytes too early", path_.string(), position, bytes.size());
    position += static_cast<std::uint64_t>(got);
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
}

void FileDescriptor::sync() {
  if (::fsync(descriptor_) != 0) fail_to_write(path_, system_error(errno));
}

void FileDescriptor::close() {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

AtomicFile::AtomicFile(std::filesystem::path target, DiskCache cache)
    : target_(std::move(target)),
      file_(-1, target_),
      bypasses_(cache == DiskCache::bypassed),
      capacity_(bypasses_ ? disk_buffer : std::size_t{1} << 16) {
  check_replaceable(target_);
  buffer_.reset(static_cast<std::byte*>(std::aligned_alloc(disk_page, capacity_)));
  if (!buffer_) throw std::bad_alloc();
  if (!open_unnamed()) open_named();
}

bool AtomicFile::open_unnamed() {
  const int descriptor = ::open(folder_of(target_).c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
  if (descriptor < 0) return false;
  file_ = {descriptor, target_};
  return ::access(name_of_descriptor(descriptor).c_str(), F_OK) == 0;
}

void AtomicFile::open_named() {
  temporary_ = create_temporary(target_, [this](const std::filesystem::path& path) {
    const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor < 0) return errno;
    file_ = {descriptor, target_};
    return 0;
  });
}

void AtomicFile::name() {
  if (!temporary_.empty()) return;
  const std::string unnamed = name_of_descriptor(file_.get());
  temporary_ = create_temporary(target_, [&](const std::filesystem::path& path) {
    return ::linkat(AT_FDCWD, unnamed.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW) != 0 ? errno : 0;
  });
}

AtomicFile::~AtomicFile() {
  if (file_.get() >= 0 && !temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  if (!bypasses_ && bytes.size() > capacity_) {
    flush();
    return file_.write(bytes);
  }
  while (!bytes.empty()) {
    if (bypasses_ && bytes.size() >= capacity_ && is_on_page(bytes.data()) && buffered_ % disk_page == 0) {  // no copy
      flush();
      const std::span<const std::byte> pages = bytes.first(bytes.size() / disk_page * disk_page);
      if (bypasses_ && file_.write_past_cache(pages)) {
        bytes = bytes.subspan(pages.size());
        continue;
      }
    }
    const std::size_t size = std::min(bytes.size(), capacity_ - buffered_);
    std::memcpy(buffer_.get() + buffered_, bytes.data(), size);
    buffered_ += size;
    bytes = bytes.subspan(size);
    if (buffered_ == capacity_) flush();
  }
}

void AtomicFile::flush() {
  const std::span<const std::byte> bytes(buffer_.get(), std::exchange(buffered_, 0));
  if (bytes.empty()) return;
  bypasses_ = bypasses_ && bytes.size() % disk_page == 0 && file_.write_past_cache(bytes);
  if (!bypasses_) file_.write(bytes);
}

void AtomicFile::write_at(std::uint64_t position, std::span<const std::byte> bytes) {
  flush();
  file_.write_at(position, bytes);
}

void AtomicFile::finish() {
  flush();
  file_.sync();
}

void AtomicFile::commit() {
  finish();
  name();
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail_to_write(target_, system_error(errno));
  file_.close();
  sync_folder(folder_of(target_));  // the new name must be on disk, too
}

void write_file_atomically(const std::filesystem::path& target, std::string_view contents) {
  AtomicFile file(target);
  file.write(contents);
  file.commit();
}

void sync_folder(const std::filesystem::path& path) {
  // File systems that cannot sync a folder do not need this.
  const FileDescriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC), path);
  if (folder.get() >= 0) ::fsync(folder.get());
}

void make_folder(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!error) return;
  std::error_code ignored;
  if (std::filesystem::is_symlink(path, ignored) && !std::filesystem::exists(path, ignored))
    fail<InputError>("{}: cannot be created as a folder: it is a link to {}, which does not exist", path.string(),
                     std::filesystem::read_symlink(path, ignored).string());
  fail_to_write(path, error, "cannot be created as a folder");
}

std::string read_file(const std::filesystem::path& path, std::uint64_t limit) {
  const FileDescriptor file = FileDescriptor::open_for_reading(path);
  const std::uint64_t size = file.size();
  if (size > limit) fail<InputError>("{}: has {} bytes, expected at most {}", path.string(), size, limit);
  std::string text(size, '\0');
  file.read_at(0, std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace heddle

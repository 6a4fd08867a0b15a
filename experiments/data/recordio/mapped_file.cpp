#include "experiments/data/recordio/mapped_file.h"

#include <algorithm>
#include <cerrno>
#include <system_error>

#include <sys/mman.h>
#include <unistd.h>

#include "framework/error.h"

namespace heddle {
namespace {

/// Reading a page also maps its neighbours into the process (Linux: fault_around_bytes).
constexpr std::uint64_t around = std::uint64_t{64} << 10;

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path, std::uint64_t max_resident)
    : file_(FileDescriptor::open_for_reading(path)), max_resident_(max_resident) {
  const std::uint64_t size = file_.size();
  if (size == 0) return;  // no mapping has a length of 0
  void* const first = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file_.get(), 0);
  if (first == MAP_FAILED)
    fail<InputError>("{}: cannot be mapped into memory: {}", path.string(), std::generic_category().message(errno));
  bytes_ = {static_cast<const std::uint8_t*>(first), size};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::uint8_t*>(bytes_.data()), bytes_.size());
}

std::uint64_t MappedFile::missing_bytes() const {
  return size() - std::min<std::uint64_t>(file_.size(), size());
}

void MappedFile::count(std::uint64_t bytes) const {
  bytes += around;
  const std::uint64_t before = counted_.fetch_add(bytes, std::memory_order_relaxed);
  if (before >= max_resident_ || before + bytes < max_resident_) return;
  counted_.store(0, std::memory_order_relaxed);
  ::madvise(const_cast<std::uint8_t*>(bytes_.data()), bytes_.size(), MADV_DONTNEED);
}

void MappedFile::expect(Order order) const {
  if (bytes_.empty()) return;
  ::madvise(const_cast<std::uint8_t*>(bytes_.data()), bytes_.size(),
            order == Order::ascending ? MADV_SEQUENTIAL : MADV_RANDOM);
}

void MappedFile::will_read(std::uint64_t offset, std::uint64_t bytes) const {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t begin = offset / page * page;
  ::madvise(const_cast<std::uint8_t*>(bytes_.data() + begin), offset + bytes - begin, MADV_WILLNEED);
}

}  // namespace heddle

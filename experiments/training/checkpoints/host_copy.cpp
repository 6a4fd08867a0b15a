#include "experiments/training/checkpoints/host_copy.h"

#include <new>
#include <system_error>

#include "framework/files/disk_page.h"

namespace heddle {

std::int64_t bytes_to_copy(const std::vector<StateTensor>& tensors) {
  std::int64_t bytes = 0;
  for (const StateTensor& tensor : tensors) bytes += tensor.value.bytes();
  return bytes;
}

HostCopy::~HostCopy() {
  free();
}

void HostCopy::prepare(const std::vector<StateTensor>& tensors) {
  if (memory_ != nullptr || !reserve(static_cast<std::size_t>(bytes_to_copy(tensors)))) return;
  try {
    prepared_ = std::async(std::launch::async, [memory = memory_, bytes = capacity_] {
      for (std::size_t page = 0; page < bytes; page += disk_page) memory[page] = std::byte{0};
    });
  } catch (const std::system_error&) {
    // The system has no more threads: the first copy takes longer.
  }
}

bool HostCopy::take(const std::vector<StateTensor>& tensors) {
  if (!reserve(static_cast<std::size_t>(bytes_to_copy(tensors)))) return false;
  wait_until_prepared();
  used_ = 0;
  for (const StateTensor& tensor : tensors) {
    const auto bytes = static_cast<std::size_t>(tensor.value.bytes());
    tensor.value.to_host_bytes(tensor.value.dtype(), {memory_ + used_, bytes});
    used_ += bytes;
  }
  return true;
}

bool HostCopy::reserve(std::size_t bytes) {
  if (bytes <= capacity_) return true;
  free();
  try {
    memory_ = device_.backend().allocate_host(static_cast<std::int64_t>(bytes));
  } catch (const std::bad_alloc&) {
    return false;
  } catch (const OutOfMemory&) {
    return false;
  }
  capacity_ = bytes;
  return true;
}

void HostCopy::wait_until_prepared() {
  if (prepared_.valid()) prepared_.get();
}

void HostCopy::free() {
  wait_until_prepared();
  if (memory_ != nullptr) device_.backend().deallocate_host(memory_, static_cast<std::int64_t>(capacity_));
  memory_ = nullptr;
  used_ = capacity_ = 0;
}

}  // namespace heddle

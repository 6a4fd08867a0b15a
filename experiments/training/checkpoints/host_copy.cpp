#include "experiments/training/checkpoints/host_copy.h"

#include <new>
#include <utility>

namespace heddle {

HostCopy::~HostCopy() {
  free();
}

bool HostCopy::take(const std::vector<StateTensor>& tensors) {
  std::size_t needed = 0;
  for (const StateTensor& tensor : tensors) needed += static_cast<std::size_t>(tensor.value.bytes());
  if (!reserve(needed)) return false;
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

void HostCopy::free() {
  if (memory_ != nullptr) device_.backend().deallocate_host(memory_, static_cast<std::int64_t>(capacity_));
  memory_ = nullptr;
  used_ = capacity_ = 0;
}

}  // namespace heddle

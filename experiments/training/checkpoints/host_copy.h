// A copy of tensors in the host's memory, from which a thread can write while the tensors change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <future>
#include <span>
#include <vector>

#include "framework/tensors/device.h"
#include "layers/parameter.h"

namespace heddle {

/// The size of a copy of these tensors.
std::int64_t bytes_to_copy(const std::vector<StateTensor>& tensors);

/// The memory is kept for the next copy. It counts in no category of the device's meter.
class HostCopy {
 public:
  explicit HostCopy(Device& device) : device_(device) {}
  ~HostCopy();
  HostCopy(const HostCopy&) = delete;
  HostCopy& operator=(const HostCopy&) = delete;

  /// Reserves memory for a copy of these tensors, unless there has been one. A thread writes to it for the first time,
  /// which takes longer than later copies do.
  void prepare(const std::vector<StateTensor>& tensors);
  /// Replaces the copy by one of these tensors' elements, one tensor after the other. Returns false if the host has no
  /// memory for them.
  bool take(const std::vector<StateTensor>& tensors);
  std::span<const std::byte> bytes() const { return {memory_, used_}; }
  /// The size of the memory.
  std::size_t capacity() const { return capacity_; }

 private:
  bool reserve(std::size_t bytes);
  void wait_until_prepared();
  void free();

  Device& device_;
  std::byte* memory_ = nullptr;
  std::size_t capacity_ = 0;
  std::size_t used_ = 0;
  std::future<void> prepared_;
};

}  // namespace heddle

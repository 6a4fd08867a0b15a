// The elements of tensors as they are now, in the host's memory, from which a thread can write while the tensors
// change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <span>
#include <vector>

#include "experiments/training/checkpoints/pace.h"
#include "framework/tensors/device.h"
#include "layers/parameter.h"

namespace heddle {

/// The size of a copy of these tensors.
std::int64_t bytes_to_copy(const std::vector<StateTensor>& tensors);

/// Tensors are copied, except for those that every step rewrites (StateTensor::is_rewritten): these stay where they
/// are, and their next step is written to other memory, which they keep. All memory is kept for the next copy. It
/// counts in no category of the device's meter.
class HostCopy {
 public:
  explicit HostCopy(Device& device) : device_(device) {}
  ~HostCopy();
  HostCopy(const HostCopy&) = delete;
  HostCopy& operator=(const HostCopy&) = delete;

  /// Reserves memory for a copy of these tensors, unless there has been one. A thread writes to it for the first time,
  /// which takes longer than later copies do, and for which there is this much time.
  void prepare(const std::vector<StateTensor>& tensors, Pace::Seconds available);
  /// Replaces the copy by one of these tensors. Returns false if the host has no memory for it.
  bool take(const std::vector<StateTensor>& tensors);
  /// The elements of each tensor of `take`, until `release`.
  const std::vector<std::span<const std::byte>>& elements() const { return elements_; }
  /// The copy is no longer read: tensors that have not changed since then may change in their place.
  void release();
  /// The size of all memory.
  std::int64_t capacity() const;

 private:
  /// The memory that a tensor's next step is written to, or that was written before.
  struct Spare {
    std::shared_ptr<Storage> of;
    std::shared_ptr<Storage> storage;
  };

  bool reserve(const std::vector<StateTensor>& tensors);
  /// Null if the tensor is to be copied.
  const Spare* spare_of(const StateTensor& tensor) const;
  void wait_until_prepared();
  void free();

  Device& device_;
  std::byte* memory_ = nullptr;  // of the copied tensors
  std::size_t capacity_ = 0;
  std::vector<Spare> spares_;
  std::vector<std::span<const std::byte>> elements_;
  Pace pace_;
  std::future<void> prepared_;
};

}  // namespace heddle

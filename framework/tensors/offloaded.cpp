#include "framework/tensors/offloaded.h"

#include <set>
#include <span>
#include <utility>

#include "framework/tensors/device.h"

namespace heddle {

StorageLog::StorageLog(Device& device) : device_(device), before_(std::exchange(device.storage_log_, this)) {}

StorageLog::~StorageLog() {
  device_.storage_log_ = before_;
}

Offloaded::Offloaded(const std::vector<std::weak_ptr<Storage>>& storages) {
  std::set<const Storage*> taken;
  for (const std::weak_ptr<Storage>& noted : storages) {
    std::shared_ptr<Storage> storage = noted.lock();
    if (!storage || storage->category() != Category::activations || !taken.insert(storage.get()).second) continue;
    bytes_ += storage->bytes();
    parts_.push_back({std::move(storage)});
  }
}

Offloaded::~Offloaded() {
  if (is_out_) parts_.front().storage->device().meter().charge_offloaded(-bytes_);
}

void Offloaded::take_out() {
  if (parts_.empty()) return;
  Device& device = parts_.front().storage->device();
  device.meter().charge_offloaded(bytes_);
  is_out_ = true;
  for (Part& part : parts_) {
    if (device.has_data()) {
      const auto size = static_cast<std::size_t>(part.storage->bytes());
      part.copy = std::make_unique_for_overwrite<std::byte[]>(size);
      device.backend().copy_to_host({part.copy.get(), size}, part.storage->data());
    }
    part.storage->release();
  }
}

void Offloaded::bring_back() {
  if (!is_out_) return;
  Device& device = parts_.front().storage->device();
  const MemoryScope scope(device, Category::activations);
  for (Part& part : parts_) {
    Storage fresh(device, part.storage->bytes());
    if (device.has_data())
      device.backend().copy_from_host(fresh.data(), {part.copy.get(), static_cast<std::size_t>(fresh.bytes())});
    part.storage->refill(fresh);
    part.copy.reset();
  }
  is_out_ = false;
  device.meter().charge_offloaded(-bytes_);
  parts_.clear();
}

}  // namespace heddle

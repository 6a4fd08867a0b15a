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
  if (!is_out_) return;
  for (Part& part : parts_) free_host(part);
  parts_.front().storage->device().meter().charge_offloaded(-bytes_);
}

void Offloaded::free_host(Part& part) {
  if (std::byte* const host = std::exchange(part.host, nullptr))
    part.storage->device().backend().deallocate_host(host, part.storage->bytes());
}

void Offloaded::offload() {
  if (parts_.empty()) return;
  Device& device = parts_.front().storage->device();
  device.meter().charge_offloaded(bytes_);
  is_out_ = true;
  for (Part& part : parts_) part.host = device.backend().allocate_host(part.storage->bytes());
  for (Part& part : parts_) part.storage->offload({part.host, static_cast<std::size_t>(part.storage->bytes())});
}

std::shared_ptr<const Mark> Offloaded::load() {
  if (!is_out_) return nullptr;
  Device& device = parts_.front().storage->device();
  for (Part& part : parts_) {
    part.storage->load({part.host, static_cast<std::size_t>(part.storage->bytes())});
    free_host(part);
  }
  is_out_ = false;
  device.meter().charge_offloaded(-bytes_);
  parts_.clear();
  return device.backend().transfers();
}

}  // namespace heddle

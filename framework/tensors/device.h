// The device on which a rank computes: its backend, its memory meter and its recorder.
// Each rank has one device, which outlives every tensor made on it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "framework/autograd/recorder.h"
#include "framework/backends/backend.h"
#include "framework/tensors/memory.h"

namespace heddle {

class StorageLog;

class Device {
 public:
  explicit Device(std::unique_ptr<Backend> backend, int rank = 0, std::optional<std::int64_t> memory_budget = {})
      : rank_(rank), meter_(rank, memory_budget), backend_(std::move(backend)) {}

  int rank() const { return rank_; }
  Backend& backend() const { return *backend_; }
  MemoryMeter& meter() { return meter_; }
  const MemoryMeter& meter() const { return meter_; }
  /// False on plan: shapes only.
  bool has_data() const { return backend_->has_data(); }

  /// The category that new tensors are charged to.
  Category category() const { return category_; }
  Recorder& recorder() { return recorder_; }
  const Recorder& recorder() const { return recorder_; }
  /// Where new storages are noted; null if nowhere.
  StorageLog* storage_log() const { return storage_log_; }

 private:
  friend class MemoryScope;
  friend class StorageLog;

  int rank_;
  MemoryMeter meter_;
  std::unique_ptr<Backend> backend_;
  Category category_ = Category::activations;
  Recorder recorder_;
  StorageLog* storage_log_ = nullptr;
};

/// Charges everything that is allocated during its lifetime to one category.
class MemoryScope {
 public:
  MemoryScope(Device& device, Category category) : device_(device), before_(device.category_) {
    device.category_ = category;
  }
  ~MemoryScope() { device_.category_ = before_; }
  MemoryScope(const MemoryScope&) = delete;
  MemoryScope& operator=(const MemoryScope&) = delete;

 private:
  Device& device_;
  Category before_;
};

}  // namespace heddle

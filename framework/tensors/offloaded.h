// Moves the elements of tensors to the host's memory and back, while operations hold the tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "framework/tensors/mark.h"
#include "framework/tensors/tensor.h"

namespace heddle {

/// Notes the storages of all tensors that are made on a device during its lifetime.
class StorageLog {
 public:
  explicit StorageLog(Device& device);
  ~StorageLog();
  StorageLog(const StorageLog&) = delete;
  StorageLog& operator=(const StorageLog&) = delete;

  void note(const std::shared_ptr<Storage>& storage) { storages_.push_back(storage); }
  std::vector<std::weak_ptr<Storage>> take() { return std::move(storages_); }

 private:
  Device& device_;
  StorageLog* before_;
  std::vector<std::weak_ptr<Storage>> storages_;
};

/// Storages whose bytes move to the host's memory and back. Their tensors cannot be read in between.
class Offloaded {
 public:
  /// Takes those of the storages that still exist and hold activations, each once, on one device.
  explicit Offloaded(const std::vector<std::weak_ptr<Storage>>& storages);
  ~Offloaded();
  Offloaded(const Offloaded&) = delete;
  Offloaded& operator=(const Offloaded&) = delete;

  std::int64_t bytes() const { return bytes_; }
  /// Moves the bytes into the host's memory, which the device's meter counts from now on.
  void offload();
  /// Moves them back to the device. What reads them must wait for the mark; null where they are back already.
  std::shared_ptr<const Mark> load();

 private:
  struct Part {
    std::shared_ptr<Storage> storage;
    std::byte* host = nullptr;  // on plan always
  };

  void free_host(Part& part);

  std::vector<Part> parts_;
  std::int64_t bytes_ = 0;
  bool is_out_ = false;
};

}  // namespace heddle

// Moves the elements of tensors to the host's memory and back, while operations hold the tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

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

/// Storages whose bytes are in the host's memory. Their tensors cannot be read until they are back.
class Offloaded {
 public:
  /// Takes those of the storages that still exist and hold activations, each once, on one device.
  explicit Offloaded(const std::vector<std::weak_ptr<Storage>>& storages);
  ~Offloaded();
  Offloaded(const Offloaded&) = delete;
  Offloaded& operator=(const Offloaded&) = delete;

  std::int64_t bytes() const { return bytes_; }
  /// Copies the bytes into the host's memory, which the device's meter counts from now on, and frees them on the
  /// device.
  void take_out();
  /// Allocates the bytes on the device again, copies them there, and frees the host's memory.
  void bring_back();

 private:
  struct Part {
    std::shared_ptr<Storage> storage;
    std::unique_ptr<std::byte[]> copy{};  // null on plan
  };

  std::vector<Part> parts_;
  std::int64_t bytes_ = 0;
  bool is_out_ = false;
};

}  // namespace heddle

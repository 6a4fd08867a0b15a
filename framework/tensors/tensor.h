// A tensor is a small handle: storage, offset, shape, dtype. It is contiguous and row-major; copies of the handle share
// the elements. Leading slices and reshapes copy nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "framework/tensors/dtype.h"
#include "framework/tensors/memory.h"
#include "framework/tensors/shape.h"

namespace heddle {

class Device;
class Tensor;

/// Bytes on a device, charged to its meter while they live. Knows what an operation needs: device, and through it
/// backend and meter.
class Storage {
 public:
  Storage(Device& device, std::int64_t bytes);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  Device& device() const { return device_; }
  /// Null on the plan backend. A device address: host code reads it only where the backend says that it may. An Error
  /// while the bytes are given back.
  void* data() const;
  std::int64_t bytes() const { return bytes_; }
  Category category() const { return category_; }
  void recategorise(Category category);

  /// Gives the bytes back, and what is derived from them, while tensors go on to share this storage.
  void release();
  /// Takes over the bytes of a storage of the same size and device, which is left without; its tensors are not to be
  /// read any more. Those of this storage are again.
  void refill(Storage& other);

  /// Counts in-place changes of the elements, so that what was derived from them (packed weights) knows it is stale.
  std::uint64_t version() const { return version_; }
  void changed() { ++version_; }

  /// What framework/tensors/derived.h keeps with these elements.
  struct Derived {
    std::uint64_t key;
    std::uint64_t version;
    std::shared_ptr<Storage> storage;
  };
  std::vector<Derived>& derived() { return derived_; }

 private:
  Device& device_;
  std::int64_t bytes_;
  Category category_;
  void* data_;
  bool is_released_ = false;
  std::uint64_t version_ = 0;
  std::vector<Derived> derived_;
};

class Tensor {
 public:
  /// No tensor: `defined()` is false.
  Tensor() = default;
  /// Uninitialised elements, charged to the device's current category.
  static Tensor empty(Device& device, const Shape& shape, DType dtype);
  static Tensor full(Device& device, const Shape& shape, DType dtype, double value);
  static Tensor zeros(Device& device, const Shape& shape, DType dtype) { return full(device, shape, dtype, 0); }
  /// Same shape, dtype and device as `like`.
  static Tensor empty_like(const Tensor& like);
  static Tensor zeros_like(const Tensor& like);
  /// Copies host values; their number must be the shape's.
  template <class T>
  static Tensor from_host(Device& device, const Shape& shape, std::span<const T> values) {
    return from_host_bytes(device, shape, dtype_of<T>, std::as_bytes(values));
  }
  template <class T>
  static Tensor from_host(Device& device, const Shape& shape, const std::vector<T>& values) {
    return from_host(device, shape, std::span<const T>(values));
  }
  /// Any storage of at least offset + numel elements, seen as this shape.
  static Tensor view(std::shared_ptr<Storage> storage, std::int64_t byte_offset, const Shape& shape, DType dtype);

  bool defined() const { return storage_ != nullptr; }
  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  Device& device() const { return storage_->device(); }
  const std::shared_ptr<Storage>& storage() const { return storage_; }
  std::int64_t byte_offset() const { return byte_offset_; }
  std::int64_t numel() const { return shape_.numel(); }
  std::int64_t bytes() const { return numel() * static_cast<std::int64_t>(size_of(dtype_)); }
  /// Device address of the first element; null on plan.
  void* data() const;
  template <class T>
  T* as() const {
    return static_cast<T*>(data());
  }
  /// True if no other handle shares the storage, so that its elements may be reused.
  bool is_sole_owner() const { return storage_.use_count() == 1; }

  /// The same elements in another shape of the same number; at most one dimension may be -1.
  Tensor reshape(const Shape& shape) const { return reshape(shape.dimensions()); }
  Tensor reshape(std::initializer_list<std::int64_t> dimensions) const {
    return reshape(std::span(dimensions.begin(), dimensions.size()));
  }
  Tensor reshape(std::span<const std::int64_t> dimensions) const;
  /// Rows begin .. end-1 of the leading dimension, without a copy.
  Tensor rows(std::int64_t begin, std::int64_t end) const;
  /// A copy of its own on the same device, in the device's current category.
  Tensor clone() const;
  /// Same shape, dtype and number of bytes; copies the elements (also from another rank's device of the same kind).
  void copy_from(const Tensor& source);
  void fill(double value);

  /// Elements as host values; InputError if T is not the dtype, Error on plan (there are none).
  template <class T>
  std::vector<T> to_host() const {
    std::vector<T> values(static_cast<std::size_t>(numel()));
    to_host_bytes(dtype_of<T>, std::as_writable_bytes(std::span(values)));
    return values;
  }
  /// Floating elements widened to f64.
  std::vector<double> to_doubles() const;
  /// The only element of a one-element floating tensor.
  double item() const;

  /// Overwrites all elements with host values of the same dtype.
  void load_bytes(std::span<const std::byte> bytes);
  void to_host_bytes(DType expected, std::span<std::byte> bytes) const;

 private:
  static Tensor from_host_bytes(Device& device, const Shape& shape, DType dtype, std::span<const std::byte> bytes);

  std::shared_ptr<Storage> storage_;
  std::int64_t byte_offset_ = 0;
  Shape shape_;
  DType dtype_ = DType::f32;
};

/// Consecutive blocks of x: block i has rows[i] rows. Copies nothing.
std::vector<Tensor> split_rows(const Tensor& x, std::span<const std::int64_t> rows);

/// `f32[32,512]`, or `none`.
std::string to_string(const Tensor& tensor);

}  // namespace heddle

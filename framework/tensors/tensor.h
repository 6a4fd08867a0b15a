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

/// Bytes on a device, charged to its memory meter as long as they exist. Operations find the device here, and through
/// it the backend and the meter.
class Storage {
 public:
  Storage(Device& device, std::int64_t bytes);
  /// As many bytes on the same device, which count in no category of the meter, to be the `next` of the other one.
  static std::shared_ptr<Storage> uncharged_like(const Storage& other);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  Device& device() const { return device_; }
  /// A device address, null on the plan backend. Host code may read it only if the backend allows that. Throws Error
  /// while the bytes are released.
  void* data() const;
  std::int64_t bytes() const { return bytes_; }
  Category category() const { return category_; }
  void recategorize(Category category);

  /// Frees the bytes, and everything derived from them, while tensors still share this storage.
  void release();
  /// Takes over the bytes of another storage of the same size and device. The tensors of this storage may be read
  /// again; the tensors of the other one may not.
  void refill(Storage& other);

  /// Like release and refill, for bytes that move to the host's memory and come back (Backend::offload, load).
  void offload(std::span<std::byte> host);
  void load(std::span<const std::byte> host);

  /// The number of in-place changes of the elements, by which derived data such as packed weights are found to be
  /// stale.
  std::uint64_t version() const { return version_; }
  void changed() { ++version_; }

  /// Another storage, to which the next change of the elements writes all of them while the present ones are still
  /// read. Null: they are changed in their place.
  const std::shared_ptr<Storage>& next() const { return next_; }
  void set_next(std::shared_ptr<Storage> next);
  /// After a change, which it counts: takes the bytes of the other storage, if there is one, which gets the former
  /// ones, and forgets it.
  void move_to_next();

  /// Data that framework/tensors/derived.h caches with these elements.
  struct Derived {
    std::uint64_t key;
    std::uint64_t version;
    std::shared_ptr<Storage> storage;
  };
  std::vector<Derived>& derived() { return derived_; }

 private:
  struct Uncharged {};
  Storage(Device& device, std::int64_t bytes, Uncharged uncharged);
  /// The result of `allocate`, whose bytes are charged.
  template <class Allocate>
  void* charged(const Allocate& allocate);
  /// The address, which is no longer charged.
  void* give_up();

  Device& device_;
  std::int64_t bytes_;
  Category category_;
  void* data_;
  bool is_charged_ = true;
  bool is_released_ = false;
  std::uint64_t version_ = 0;
  std::shared_ptr<Storage> next_;
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
  /// Copies host values, one for each element of the shape.
  template <class T>
  static Tensor from_host(Device& device, const Shape& shape, std::span<const T> values) {
    return from_host_bytes(device, shape, dtype_of<T>, std::as_bytes(values));
  }
  template <class T>
  static Tensor from_host(Device& device, const Shape& shape, const std::vector<T>& values) {
    return from_host(device, shape, std::span<const T>(values));
  }
  /// A view of a storage that has at least the bytes of these elements from byte_offset on.
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

  /// The same elements in another shape with the same number of elements; one dimension may be -1, and is then
  /// inferred.
  Tensor reshape(const Shape& shape) const { return reshape(shape.dimensions()); }
  Tensor reshape(std::initializer_list<std::int64_t> dimensions) const {
    return reshape(std::span(dimensions.begin(), dimensions.size()));
  }
  Tensor reshape(std::span<const std::int64_t> dimensions) const;
  /// Rows begin .. end-1 of the leading dimension, without a copy.
  Tensor rows(std::int64_t begin, std::int64_t end) const;
  /// A copy on the same device, charged to the device's current category.
  Tensor clone() const;
  /// Copies the elements of a tensor of the same shape and dtype, which may lie on another rank's device of the same
  /// kind.
  void copy_from(const Tensor& source);
  void fill(double value);

  /// The elements as host values. InputError if T is not the dtype; Error on plan, which has no elements.
  template <class T>
  std::vector<T> to_host() const {
    std::vector<T> values(static_cast<std::size_t>(numel()));
    to_host_bytes(dtype_of<T>, std::as_writable_bytes(std::span(values)));
    return values;
  }
  /// The elements, of any type, as f64.
  std::vector<double> to_doubles() const;
  /// The only element of a one-element tensor, as f64.
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

#include "framework/tensors/tensor.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "framework/error.h"
#include "framework/tensors/device.h"
#include "framework/tensors/offloaded.h"

namespace heddle {

Storage::Storage(Device& device, std::int64_t bytes) : device_(device), bytes_(bytes), category_(device.category()) {
  data_ = charged([&] { return device_.backend().allocate(bytes_); });
}

Storage::Storage(Device& device, std::int64_t bytes, Uncharged /*uncharged*/)
    : device_(device), bytes_(bytes), category_(device.category()), is_charged_(false) {
  data_ = device_.backend().allocate(bytes_);
}

std::shared_ptr<Storage> Storage::uncharged_like(const Storage& other) {
  return std::shared_ptr<Storage>(new Storage(other.device_, other.bytes_, Uncharged{}));
}

template <class Allocate>
void* Storage::charged(const Allocate& allocate) {
  device_.meter().charge(category_, bytes_);
  void* address = nullptr;
  try {
    address = allocate();
  } catch (const OutOfMemory& error) {
    device_.meter().release(category_, bytes_);
    fail<OutOfMemory>("rank {}: {}", device_.rank(), error.what());
  } catch (...) {
    device_.meter().release(category_, bytes_);
    throw;
  }
  device_.meter().note_peak();
  return address;
}

Storage::~Storage() {
  if (!is_released_) release();
}

void* Storage::data() const {
  if (is_released_) fail("tensor: its {} bytes are released and cannot be read", bytes_);
  return data_;
}

void Storage::recategorize(Category category) {
  if (!is_released_) device_.meter().move(category_, category, bytes_);
  category_ = category;
}

void Storage::release() {
  device_.backend().deallocate(give_up(), bytes_);
}

void* Storage::give_up() {
  if (is_released_) fail("tensor: its {} bytes are already released", bytes_);
  is_released_ = true;
  if (is_charged_) device_.meter().release(category_, bytes_);
  derived_.clear();
  return std::exchange(data_, nullptr);
}

void Storage::set_next(std::shared_ptr<Storage> next) {
  if (next && (next->is_released_ || is_released_ || next->bytes_ != bytes_ || &next->device_ != &device_))
    fail("tensor: {} bytes cannot be changed into {}", bytes_, next->bytes_);
  next_ = std::move(next);
}

void Storage::move_to_next() {
  if (next_) std::swap(data_, next_->data_);
  next_.reset();
  changed();
}

void Storage::offload(std::span<std::byte> host) {
  device_.backend().offload(give_up(), host);
}

void Storage::load(std::span<const std::byte> host) {
  if (!is_released_) fail("tensor: its {} bytes are not released", bytes_);
  data_ = charged([&] { return device_.backend().load(host); });
  is_released_ = false;
  changed();
}

void Storage::refill(Storage& other) {
  if (!is_released_ || other.is_released_ || other.bytes_ != bytes_ || &other.device_ != &device_)
    fail("tensor: {} bytes cannot be refilled from {}", bytes_, other.bytes_);
  data_ = std::exchange(other.data_, nullptr);
  category_ = other.category_;
  is_released_ = false;
  other.is_released_ = true;
  changed();
}

Tensor Tensor::empty(Device& device, const Shape& shape, DType dtype) {
  auto storage = std::make_shared<Storage>(device, shape.numel() * static_cast<std::int64_t>(size_of(dtype)));
  if (StorageLog* const log = device.storage_log()) log->note(storage);
  return view(std::move(storage), 0, shape, dtype);
}

Tensor Tensor::full(Device& device, const Shape& shape, DType dtype, double value) {
  Tensor result = empty(device, shape, dtype);
  result.fill(value);
  return result;
}

Tensor Tensor::empty_like(const Tensor& like) {
  return empty(like.device(), like.shape(), like.dtype());
}
Tensor Tensor::zeros_like(const Tensor& like) {
  return zeros(like.device(), like.shape(), like.dtype());
}

Tensor Tensor::from_host_bytes(Device& device, const Shape& shape, DType dtype, std::span<const std::byte> bytes) {
  Tensor result = empty(device, shape, dtype);
  result.load_bytes(bytes);
  return result;
}

Tensor Tensor::view(std::shared_ptr<Storage> storage, std::int64_t byte_offset, const Shape& shape, DType dtype) {
  Tensor result;
  result.storage_ = std::move(storage);
  result.byte_offset_ = byte_offset;
  result.shape_ = shape;
  result.dtype_ = dtype;
  if (byte_offset < 0 || byte_offset + result.bytes() > result.storage_->bytes())
    fail("tensor: {} at byte {} does not fit into a storage of {} bytes", to_string(result), byte_offset,
         result.storage_->bytes());
  return result;
}

void* Tensor::data() const {
  void* const base = storage_->data();
  return base == nullptr ? nullptr : static_cast<std::byte*>(base) + byte_offset_;
}

Tensor Tensor::reshape(std::span<const std::int64_t> dimensions) const {
  std::vector<std::int64_t> sizes(dimensions.begin(), dimensions.end());
  const auto open = std::find(sizes.begin(), sizes.end(), -1);
  if (open != sizes.end()) {
    std::int64_t known = 1;
    for (const std::int64_t size : sizes) known *= size == -1 ? 1 : size;
    *open = known == 0 ? 0 : numel() / known;
  }
  const Shape shape{std::span<const std::int64_t>(sizes)};
  if (shape.numel() != numel())
    fail<InputError>("reshape: {} cannot be seen as {}", to_string(*this), to_string(shape));
  Tensor result = *this;
  result.shape_ = shape;
  return result;
}

Tensor Tensor::rows(std::int64_t begin, std::int64_t end) const {
  if (shape_.rank() == 0 || begin < 0 || begin > end || end > shape_[0])
    fail<InputError>("rows: {} has no rows {} to {}", to_string(*this), begin, end);
  Tensor result = *this;
  const std::int64_t row_bytes = shape_.product(1, shape_.rank()) * static_cast<std::int64_t>(size_of(dtype_));
  result.byte_offset_ += begin * row_bytes;
  result.shape_ = shape_.with(0, end - begin);
  return result;
}

Tensor Tensor::clone() const {
  Tensor result = empty_like(*this);
  result.copy_from(*this);
  return result;
}

void Tensor::copy_from(const Tensor& source) {
  if (source.shape() != shape_ || source.dtype() != dtype_)
    fail<InputError>("copy: expected {}, got {}", to_string(*this), to_string(source));
  storage_->changed();
  device().backend().copy(data(), source.data(), bytes());
}

void Tensor::fill(double value) {
  storage_->changed();
  device().backend().elementwise().fill(*this, value);
}

void Tensor::load_bytes(std::span<const std::byte> bytes_in) {
  if (static_cast<std::int64_t>(bytes_in.size()) != bytes())
    fail<InputError>("tensor: {} takes {} bytes, got {}", to_string(*this), bytes(), bytes_in.size());
  storage_->changed();
  device().backend().copy_from_host(data(), bytes_in);
}

void Tensor::to_host_bytes(DType expected, std::span<std::byte> out) const {
  if (expected != dtype_) fail<InputError>("tensor: {} read as {}", to_string(*this), name_of(expected));
  if (!device().has_data()) fail("tensor: {} has no elements to read on the plan backend", to_string(*this));
  device().backend().copy_to_host(out, data());
}

std::vector<double> Tensor::to_doubles() const {
  return visit_any(dtype_, [this]<class T>(T) {
    const std::vector<T> values = to_host<T>();
    std::vector<double> wide(values.size());
    std::transform(values.begin(), values.end(), wide.begin(), [](T value) { return static_cast<double>(value); });
    return wide;
  });
}

double Tensor::item() const {
  if (numel() != 1) fail<InputError>("item: expected one element, got {}", to_string(*this));
  return to_doubles()[0];
}

std::vector<Tensor> split_rows(const Tensor& x, std::span<const std::int64_t> rows) {
  std::vector<Tensor> blocks;
  std::int64_t begin = 0;
  for (const std::int64_t count : rows) {
    blocks.push_back(x.rows(begin, begin + count));
    begin += count;
  }
  return blocks;
}

std::string to_string(const Tensor& tensor) {
  return tensor.defined() ? to_string(tensor.dtype(), tensor.shape()) : std::string("none");
}

}  // namespace heddle

#include "experiments/training/checkpoints/host_copy.h"

#include <algorithm>
#include <new>
#include <system_error>

#include "framework/files/disk_page.h"

namespace heddle {

namespace {

/// Whether a tensor has all of its storage, and rewrites it.
bool stays_in_place(const StateTensor& tensor) {
  return tensor.is_rewritten && tensor.value.bytes() > 0 && tensor.value.bytes() == tensor.value.storage()->bytes();
}

}  // namespace

std::int64_t bytes_to_copy(const std::vector<StateTensor>& tensors) {
  std::int64_t bytes = 0;
  for (const StateTensor& tensor : tensors) bytes += tensor.value.bytes();
  return bytes;
}

HostCopy::~HostCopy() {
  free();
}

void HostCopy::prepare(const std::vector<StateTensor>& tensors, Pace::Seconds available) {
  if (capacity() > 0 || !reserve(tensors)) return;
  std::vector<std::span<std::byte>> memory{{memory_, capacity_}};
  for (const Spare& spare : spares_)
    memory.emplace_back(static_cast<std::byte*>(spare.storage->data()),
                        static_cast<std::size_t>(spare.storage->bytes()));
  pace_.begin(available);
  try {
    prepared_ = std::async(std::launch::async, [this, memory = std::move(memory), all = capacity()] {
      constexpr std::size_t max_piece = std::size_t{2} << 20;
      double done = 0;
      for (std::span<std::byte> rest : memory)
        while (!rest.empty()) {
          const std::span<std::byte> piece = rest.first(std::min(max_piece, rest.size()));
          for (std::size_t page = 0; page < piece.size(); page += disk_page) piece[page] = std::byte{0};
          rest = rest.subspan(piece.size());
          done += static_cast<double>(piece.size());
          pace_.rest(done / static_cast<double>(all));
        }
    });
  } catch (const std::system_error&) {
    // The system has no more threads: the first copy takes longer.
  }
}

bool HostCopy::take(const std::vector<StateTensor>& tensors) {
  wait_until_prepared();
  if (!reserve(tensors)) return false;
  elements_.clear();
  std::size_t used = 0;
  for (const StateTensor& tensor : tensors) {
    const auto bytes = static_cast<std::size_t>(tensor.value.bytes());
    if (const Spare* const spare = spare_of(tensor)) {
      elements_.emplace_back(static_cast<const std::byte*>(tensor.value.data()), bytes);
      spare->of->set_next(spare->storage);
    } else {
      elements_.emplace_back(memory_ + used, bytes);
      tensor.value.to_host_bytes(tensor.value.dtype(), {memory_ + used, bytes});
      used += bytes;
    }
  }
  return true;
}

void HostCopy::release() {
  elements_.clear();
  for (const Spare& spare : spares_) spare.of->set_next(nullptr);
}

std::int64_t HostCopy::capacity() const {
  auto bytes = static_cast<std::int64_t>(capacity_);
  for (const Spare& spare : spares_) bytes += spare.storage->bytes();
  return bytes;
}

const HostCopy::Spare* HostCopy::spare_of(const StateTensor& tensor) const {
  const auto found = std::find_if(spares_.begin(), spares_.end(),
                                  [&](const Spare& spare) { return spare.of == tensor.value.storage(); });
  return found != spares_.end() ? &*found : nullptr;
}

bool HostCopy::reserve(const std::vector<StateTensor>& tensors) {
  std::size_t copied = 0;
  try {
    for (const StateTensor& tensor : tensors)
      if (!stays_in_place(tensor))
        copied += static_cast<std::size_t>(tensor.value.bytes());
      else if (spare_of(tensor) == nullptr)
        spares_.push_back({tensor.value.storage(), Storage::uncharged_like(*tensor.value.storage())});
    if (copied <= capacity_) return true;
    if (memory_ != nullptr) device_.backend().deallocate_host(memory_, static_cast<std::int64_t>(capacity_));
    memory_ = nullptr;
    capacity_ = 0;
    memory_ = device_.backend().allocate_host(static_cast<std::int64_t>(copied));
    capacity_ = copied;
    return true;
  } catch (const std::bad_alloc&) {
  } catch (const OutOfMemory&) {
  }
  free();
  return false;
}

void HostCopy::wait_until_prepared() {
  pace_.hurry();
  if (prepared_.valid()) prepared_.get();
}

void HostCopy::free() {
  wait_until_prepared();
  release();
  spares_.clear();
  if (memory_ != nullptr) device_.backend().deallocate_host(memory_, static_cast<std::int64_t>(capacity_));
  memory_ = nullptr;
  capacity_ = 0;
}

}  // namespace heddle

// The memory meter of one rank: live bytes in six categories, their peak, and a budget.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace heddle {

enum class Category : std::uint8_t { parameters, gradients, optimizer, activations, workspace, communication };
inline constexpr std::size_t category_count = 6;
std::string_view name_of(Category category);

struct MemoryUse {
  std::array<std::int64_t, category_count> bytes{};
  std::int64_t operator[](Category category) const { return bytes[static_cast<std::size_t>(category)]; }
  std::int64_t total() const;
};

/// Counts the bytes that tensors hold, not those that an allocator caches. Thread-safe: a tensor that was passed to
/// another rank may be freed there and is still charged here.
class MemoryMeter {
 public:
  MemoryMeter(int rank, std::optional<std::int64_t> budget) : rank_(rank), budget_(budget) {}

  /// If the budget is exceeded, throws an OutOfMemory that names the rank, the category, the bytes requested and the
  /// bytes held, and charges nothing.
  void charge(Category category, std::int64_t bytes);
  /// Counts what is held towards the peak; called once the charged bytes have been allocated.
  void note_peak();
  void release(Category category, std::int64_t bytes);
  /// Moves live bytes to another category, for instance when a vjp's result becomes a parameter's gradient.
  void move(Category from, Category to, std::int64_t bytes);

  /// Counts bytes of the host's memory that hold what was offloaded (framework/tensors/offloaded.h); negative when they
  /// are freed. They belong to no category, and count neither in the total nor in the budget.
  void charge_offloaded(std::int64_t bytes);
  std::int64_t peak_offloaded() const;

  MemoryUse live() const;
  /// What was held when the total was largest; the categories add up to that total.
  MemoryUse peak() const;
  void reset_peak();

 private:
  int rank_;
  std::optional<std::int64_t> budget_;
  mutable std::mutex mutex_;
  MemoryUse live_;
  MemoryUse peak_;
  std::int64_t live_total_ = 0;
  std::int64_t peak_total_ = 0;
  std::int64_t live_offloaded_ = 0;
  std::int64_t peak_offloaded_ = 0;
};

/// `1.50 MiB`, `17 B`: binary units, and three significant digits, or four from 1000 to 1023; bytes are whole.
std::string format_bytes(std::int64_t bytes);

}  // namespace heddle

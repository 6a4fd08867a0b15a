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

/// Counts bytes that tensors hold, not what an allocator keeps back. Thread-safe: a tensor handed to another rank may
/// be released there and is still charged here.
class MemoryMeter {
 public:
  MemoryMeter(int rank, std::optional<std::int64_t> budget) : rank_(rank), budget_(budget) {}

  /// OutOfMemory names rank, category, what was asked for and what is held; nothing is charged then.
  void charge(Category category, std::int64_t bytes);
  void release(Category category, std::int64_t bytes);
  /// Live bytes change their category: a vjp's result that becomes a parameter's gradient.
  void move(Category from, Category to, std::int64_t bytes);

  MemoryUse live() const;
  /// What was held at the moment of the largest total, so that the categories add up to it.
  MemoryUse peak() const;
  void reset_peak();

 private:
  void note_peak();

  int rank_;
  std::optional<std::int64_t> budget_;
  mutable std::mutex mutex_;
  MemoryUse live_;
  MemoryUse peak_;
  std::int64_t live_total_ = 0;
  std::int64_t peak_total_ = 0;
};

/// `1.5 MiB`, `17 B`: binary units, two or three significant digits.
std::string format_bytes(std::int64_t bytes);

}  // namespace heddle

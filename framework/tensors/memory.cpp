#include "framework/tensors/memory.h"

#include <algorithm>
#include <numeric>

#include "framework/description/byte_units.h"
#include "framework/description/enum_table.h"
#include "framework/error.h"

namespace heddle {

namespace {
constexpr auto category_names = enum_table<Category>({
    {Category::parameters, "parameters"},
    {Category::gradients, "gradients"},
    {Category::optimizer, "optimizer"},
    {Category::activations, "activations"},
    {Category::workspace, "workspace"},
    {Category::communication, "communication"},
});
static_assert(category_names.size == category_count);
}  // namespace

std::string_view name_of(Category category) {
  return category_names[category];
}

std::int64_t MemoryUse::total() const {
  return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
}

void MemoryMeter::charge(Category category, std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (budget_ && live_total_ + bytes > *budget_) {
    std::string held;
    for (std::size_t i = 0; i < category_count; ++i)
      held += fmt::format("{}{} {}", i == 0 ? "" : ", ", category_names.rows()[i], format_bytes(live_.bytes[i]));
    fail<OutOfMemory>("rank {}: out of memory: asked for {} of {}, holds {} of its budget of {} ({})", rank_,
                      format_bytes(bytes), name_of(category), format_bytes(live_total_), format_bytes(*budget_), held);
  }
  live_.bytes[static_cast<std::size_t>(category)] += bytes;
  live_total_ += bytes;
}

void MemoryMeter::release(Category category, std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  live_.bytes[static_cast<std::size_t>(category)] -= bytes;
  live_total_ -= bytes;
}

void MemoryMeter::move(Category from, Category to, std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  live_.bytes[static_cast<std::size_t>(from)] -= bytes;
  live_.bytes[static_cast<std::size_t>(to)] += bytes;
}

void MemoryMeter::note_peak() {
  const std::lock_guard lock(mutex_);
  if (live_total_ <= peak_total_) return;
  peak_total_ = live_total_;
  peak_ = live_;
}

void MemoryMeter::charge_offloaded(std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  live_offloaded_ += bytes;
  peak_offloaded_ = std::max(peak_offloaded_, live_offloaded_);
}

std::int64_t MemoryMeter::peak_offloaded() const {
  const std::lock_guard lock(mutex_);
  return peak_offloaded_;
}

MemoryUse MemoryMeter::live() const {
  const std::lock_guard lock(mutex_);
  return live_;
}

MemoryUse MemoryMeter::peak() const {
  const std::lock_guard lock(mutex_);
  return peak_;
}

void MemoryMeter::reset_peak() {
  const std::lock_guard lock(mutex_);
  peak_ = live_;
  peak_total_ = live_total_;
  peak_offloaded_ = live_offloaded_;
}

std::string format_bytes(std::int64_t bytes) {
  Unit best = byte_units.front();
  for (const Unit& unit : byte_units)
    if (static_cast<double>(bytes) >= unit.size) best = unit;
  const double value = static_cast<double>(bytes) / best.size;
  return fmt::format("{:.{}f} {}", value, best.size == 1 || value >= 100 ? 0 : value >= 10 ? 1 : 2, best.name);
}

}  // namespace heddle

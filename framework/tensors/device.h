// The device on which a rank computes: its backend, its memory meter and the state of the graph that is being recorded.
// Each rank has one device, which outlives every tensor made on it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "framework/backends/backend.h"
#include "framework/tensors/memory.h"

namespace heddle {

class RecomputedSegment;

/// The part of the graph that operations record for the backward pass.
enum class Recording {
  nothing,
  edges,  // the graph without vjps, for a segment that will be recomputed (recompute.h)
  everything
};

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
  /// Whether operations record their vjps.
  bool records() const { return recording_ == Recording::everything; }
  Recording recording() const { return recording_; }
  /// The segment that is running, for the first time or again; null if there is none.
  RecomputedSegment* segment() const { return segment_; }
  /// Creation order of graph nodes on this rank.
  std::uint64_t next_sequence() { return ++sequence_; }

 private:
  friend class MemoryScope;
  friend class NoGrad;
  friend class SegmentScope;

  int rank_;
  MemoryMeter meter_;
  std::unique_ptr<Backend> backend_;
  Category category_ = Category::activations;
  Recording recording_ = Recording::everything;
  RecomputedSegment* segment_ = nullptr;
  std::uint64_t sequence_ = 0;
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

/// During its lifetime, operations record nothing and so keep no tensors.
class NoGrad {
 public:
  explicit NoGrad(Device& device) : device_(device), before_(device.recording_) {
    device.recording_ = Recording::nothing;
  }
  ~NoGrad() { device_.recording_ = before_; }
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  Device& device_;
  Recording before_;
};

}  // namespace heddle

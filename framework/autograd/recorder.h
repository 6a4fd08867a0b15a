// What a rank records of the operations that it runs, for the backward pass. Each device has one recorder, which is why
// this header knows nothing of tensors; NoGrad and recompute_segment change it.
#pragma once

#include <cstdint>

namespace heddle {

class RecomputedSegment;

/// The part of the graph that operations record.
enum class Recording {
  nothing,
  edges,  // the graph without vjps, for a segment that will be recomputed (recompute.h)
  everything
};

class Recorder {
 public:
  Recording recording() const { return recording_; }
  /// Whether operations record their vjps.
  bool records() const { return recording_ == Recording::everything; }
  /// The segment that is running, for the first time or again; null if there is none.
  RecomputedSegment* segment() const { return segment_; }
  /// Creation order of graph nodes on this rank.
  std::uint64_t next_sequence() { return ++sequence_; }

 private:
  friend class RecordingScope;

  Recording recording_ = Recording::everything;
  RecomputedSegment* segment_ = nullptr;
  std::uint64_t sequence_ = 0;
};

/// Records this much, for this segment, during its lifetime.
class RecordingScope {
 public:
  RecordingScope(Recorder& recorder, Recording recording, RecomputedSegment* segment)
      : recorder_(recorder), before_(recorder.recording_), segment_before_(recorder.segment_) {
    recorder.recording_ = recording;
    recorder.segment_ = segment;
  }
  ~RecordingScope() {
    recorder_.recording_ = before_;
    recorder_.segment_ = segment_before_;
  }
  RecordingScope(const RecordingScope&) = delete;
  RecordingScope& operator=(const RecordingScope&) = delete;

 private:
  Recorder& recorder_;
  Recording before_;
  RecomputedSegment* segment_before_;
};

}  // namespace heddle

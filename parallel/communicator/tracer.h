// Records a rank's timeline: spans of computing, and every call of its communicators.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "framework/tensors/device.h"
#include "parallel/communicator/hook.h"
#include "parallel/communicator/rank_clock.h"

namespace heddle {

/// Identifies a message between two world ranks; both use the same name.
struct MessageName {
  int from = 0;
  int to = 0;
  std::uint64_t number = 0;                              // 1, 2, ..: counts the messages of the pair and communicator
  auto operator<=>(const MessageName&) const = default;  // NOLINT(modernize-use-nullptr): clang-tidy 14 misreads it
};

/// An interval of one rank's time.
struct Span {
  std::string name;
  bool is_communication = false;
  double begin_seconds = 0;  // by the rank's clock
  double seconds = 0;
  std::int64_t bytes = 0;                // communication: bytes sent
  std::optional<MessageName> message{};  // for a send or a receive
  double computing_seconds = 0;          // computing: without the calls of communicators within the span
};

class Tracer : public Hook {
 public:
  /// The rank's clock and device, which outlive the tracer.
  Tracer(const RankClock& clock, const Device& device) : clock_(clock), device_(device) {}

  /// Nothing is recorded while this is false, so that long runs stay small.
  void set_recording(bool recording) { recording_ = recording; }
  std::vector<Span> take_spans() { return std::move(spans_); }

  /// A span of computing, which lasts as long as the object; recorded or not, a profiler of the device shows it.
  class Computing {
   public:
    Computing(Tracer& tracer, std::string name)
        : tracer_(tracer),
          name_(std::move(name)),
          begin_(tracer.settled_now()),
          computed_before_(tracer.clock_.busy_seconds()) {
      tracer.device_.backend().begin_range(name_);
    }
    ~Computing() {
      tracer_.device_.backend().end_range();
      const double end = tracer_.settled_now();
      tracer_.record({.name = std::move(name_),
                      .begin_seconds = begin_,
                      .seconds = end - begin_,
                      .computing_seconds = tracer_.clock_.busy_seconds() - computed_before_});
    }
    Computing(const Computing&) = delete;
    Computing& operator=(const Computing&) = delete;

   private:
    Tracer& tracer_;
    std::string name_;
    double begin_;
    double computed_before_;
  };

  /// A transfer between the rank's memory and the host's.
  void transfer(std::string name, const RankClock::Interval& time, std::int64_t bytes) {
    record({.name = std::move(name),
            .is_communication = true,
            .begin_seconds = time.begin,
            .seconds = time.end - time.begin,
            .bytes = bytes});
  }

  void before(const Call& /*call*/) override {}
  void after(const Call& call, const Outcome& outcome) override;

 private:
  void record(Span span) {
    if (recording_) spans_.push_back(std::move(span));
  }
  /// The time once all work issued before is done: a GPU is still computing after its kernels were called.
  double settled_now() const;

  const RankClock& clock_;
  const Device& device_;
  bool recording_ = false;
  std::vector<Span> spans_;
};

}  // namespace heddle

// Hooks observe the calls of a rank's communicators. One of them counts bytes; another one is the tracer (tracer.h).
#pragma once

#include <cstdint>

#include "parallel/communicator/transport.h"

namespace heddle {

/// The bytes of elements that this rank sent to others and received from them, and the times at which the call began
/// and ended by this rank's clock.
struct Outcome {
  std::int64_t sent_bytes = 0;
  std::int64_t received_bytes = 0;
  double begin_seconds = 0;
  double end_seconds = 0;
};

/// Sees every call of a rank, on all its communicators: `before` when it starts, `after` when it is complete.
class Hook {
 public:
  virtual ~Hook() = default;
  virtual void before(const Call& call) = 0;
  virtual void after(const Call& call, const Outcome& outcome) = 0;
};

/// Counts bytes. With k ranks, and n bytes of the whole tensor of which this rank holds m (n/k where k divides it; else
/// its own rows, or the shard of elements that shard.h gives it), a rank
///                     sends                              receives
///   all_reduce        (n - m) + (k-1) m                  the same: 2(k-1)/k n where k divides n
///   reduce            (n - m) + m; the root n - m        (k-1) m; the root (k-1) m + (n - m)
///   reduce_scatter    n - m                              (k-1) m
///   all_gather        (k-1) m                            n - m
///   all_to_all        what it holds for others           what others hold for it
///   broadcast         nothing; the root (k-1) n          n; the root nothing
///   gather            m; the root nothing                nothing; the root n - m
///   scatter           nothing; the root n - m            m; the root nothing
///   send, recv        n                                  n
///   exchange          what it sends                      what it receives
/// barrier and split move no elements.
class ByteCounter : public Hook {
 public:
  void before(const Call&) override {}
  void after(const Call&, const Outcome& outcome) override {
    sent_ += outcome.sent_bytes;
    received_ += outcome.received_bytes;
  }
  std::int64_t sent_bytes() const { return sent_; }
  std::int64_t received_bytes() const { return received_; }

 private:
  std::int64_t sent_ = 0;
  std::int64_t received_ = 0;
};

}  // namespace heddle

// A rank's time: the wall's, or a virtual one that runs while the rank computes and jumps where it waits, so that many
// ranks tell their true timeline on few cores. The thread teams of OpenMP and of oneDNN are other threads and not seen
// by a thread's CPU time: with a virtual clock a rank computes on one thread. Where ranks are threads and the time is
// their CPU time, one of them computes at a time: from when it leaves a communicator to when it enters the next.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "framework/scalars/random.h"
#include "parallel/communicator/core_lock.h"
#include "parallel/communicator/link_model.h"

namespace heddle {

/// CPU time of the calling thread.
double thread_cpu_seconds();

/// What a rank's virtual clock runs by.
struct ClockModel {
  LinkModel links{};
  /// Relative to the machine: at 0.5 the rank computes twice as long.
  double speed = 1;
  /// Each stretch of computing between two calls of communicators takes 1 + jitter * u times as long; u is uniform in
  /// [-1, 1), drawn for the rank and the stretch.
  double jitter = 0;
  RandomKey key{};
};

/// Made, asked and told by the rank's own thread.
class RankClock {
 public:
  using Steady = std::chrono::steady_clock;
  /// Seconds that the rank has computed so far, from any zero. What it grows by within communicators does not count.
  using Computed = std::function<double()>;

  /// Wall time since `epoch`.
  explicit RankClock(Steady::time_point epoch = Steady::now(), Computed computed = thread_cpu_seconds);
  /// Virtual time of a world rank, from 0.
  RankClock(int rank, const ClockModel& model, Computed computed = thread_cpu_seconds);

  bool is_virtual() const { return model_.has_value(); }
  double now() const;
  /// Time spent outside communicators; by a virtual clock divided by the speed, with its jitter.
  double busy_seconds() const;

  /// From now on the rank computes in its turn only, which it gives up while it communicates. Who leaves a communicator
  /// by an exception does not wait for it, so that no failure is held up.
  void take_turns(std::shared_ptr<ComputingTurn> turn);
  /// The rank computes no more.
  void retire() { stop(); }

  /// The rank waits until then; nothing on a wall clock.
  void wait_until(double seconds);

  /// When a message that this rank sends now is put on its link, which it shares with those that this rank sent to the
  /// same rank before: each keeps it for bytes / bandwidth. On a wall clock: now.
  double departure(int to, std::int64_t bytes);

  // Of a virtual clock only.
  /// When a message that departed then has left its sender, and when it arrives.
  double left(double departed, int from, int to, std::int64_t bytes) const;
  double arrival(double departed, int from, int to, std::int64_t bytes) const;
  /// When a collective ends whose last rank called at `latest`: collectives of the same ranks follow one another.
  double end(double latest, Operation operation, std::int64_t bytes, std::span<const int> world_ranks);

 private:
  friend class Communicating;
  void stop();
  void go_on(bool in_turn = true);

  Steady::time_point epoch_;
  Computed computed_;
  std::optional<ClockModel> model_;
  int rank_ = 0;
  int communicating_ = 0;  // nested scopes
  double busy_ = 0;        // stretches that have ended
  double began_ = 0;       // what `computed_` gave at the begin of this one
  double slowness_ = 1;    // of this stretch
  std::uint64_t stretch_ = 0;
  double waited_ = 0;
  std::shared_ptr<ComputingTurn> turn_;
  bool has_turn_ = false;
  std::map<int, double> link_is_free_;                       // by receiver
  std::map<std::vector<int>, double> collective_has_ended_;  // by the ranks that took part
};

/// What the rank does while this lives is communication. May be nested.
class Communicating {
 public:
  explicit Communicating(RankClock& clock) : clock_(clock) { clock_.stop(); }
  ~Communicating() { clock_.go_on(std::uncaught_exceptions() == exceptions_); }
  Communicating(const Communicating&) = delete;
  Communicating& operator=(const Communicating&) = delete;

 private:
  RankClock& clock_;
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace heddle

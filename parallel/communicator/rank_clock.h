// A rank's clock: wall time, or a virtual time that advances while the rank computes and jumps where it waits, so that
// few cores show the true timeline of many ranks. A virtual clock counts the CPU time of the rank's own thread and not
// that of the thread teams of OpenMP and oneDNN. With it, a rank therefore computes on one thread. Where ranks are
// threads and their time is CPU time, one of them computes at a time (core_lock.h), between two calls of communicators.
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

/// CPU time of the calling thread, in seconds.
double thread_cpu_seconds();
/// The time of a clock that never goes back, in seconds from an arbitrary zero.
double steady_seconds();

/// The model behind a virtual clock.
struct ClockModel {
  LinkModel links{};
  /// Relative to the machine: at 0.5 the rank takes twice as long to compute.
  double speed = 1;
  /// The clock multiplies each stretch of computing between two communicator calls by 1 + jitter * u, where u is drawn
  /// uniformly from [-1, 1) for the rank and the stretch.
  double jitter = 0;
  RandomKey key{};
};

/// Used by the rank's own thread only.
class RankClock {
 public:
  using Steady = std::chrono::steady_clock;
  /// The seconds that the rank has computed so far, from an arbitrary zero. Its growth within communicators is not
  /// counted.
  using Computed = std::function<double()>;

  /// Wall time since `epoch`.
  explicit RankClock(Steady::time_point epoch = Steady::now(), Computed computed = thread_cpu_seconds);
  /// Virtual time of a world rank, from 0.
  RankClock(int rank, const ClockModel& model, Computed computed = thread_cpu_seconds);

  bool is_virtual() const { return model_.has_value(); }
  /// Seconds.
  double now() const;
  /// Seconds spent outside communicators; a virtual clock divides them by the speed and applies the jitter.
  double busy_seconds() const;

  /// From now on the rank holds this lock while it computes, and releases it while it communicates. A rank that leaves
  /// a communicator by an exception does not wait for the lock, so that no failure is held up.
  void compute_under(std::shared_ptr<CoreLock> core);
  /// Releases the lock for good: the rank computes nothing more.
  void retire() { stop(); }

  /// Advances a virtual clock to `seconds`; does nothing on a wall clock.
  void wait_until(double seconds);

  /// When a message that this rank sends now is put on its link. The link is shared by all messages from this rank to
  /// the same receiver, and each occupies it for bytes / bandwidth. On a wall clock: now.
  double departure(int to, std::int64_t bytes);

  /// An interval of the rank's time.
  struct Interval {
    double begin = 0;
    double end = 0;
  };
  /// Runs `move`, which moves these bytes between the rank's memory and the host's, and returns when the transfer
  /// begins and ends. On a virtual clock, `move` itself takes no time: the transfers of a rank follow one another on
  /// its host link, while the rank goes on.
  Interval transfer(std::int64_t bytes, const std::function<void()>& move);

  // The following are for virtual clocks only.
  /// When a message that departed at `departed` has left its sender, and when it arrives.
  double left(double departed, int from, int to, std::int64_t bytes) const;
  double arrival(double departed, int from, int to, std::int64_t bytes) const;
  /// The collectives of a set of ranks, which follow one another.
  struct Collectives {
    NodeSpread spread;
    double ended = 0;  // the last one
  };
  /// The same object for all communicators of these ranks, as long as the clock lives; null on a wall clock.
  Collectives* collectives_of(std::span<const int> world_ranks);
  /// Counts the next one, which its last rank called at `latest`, and returns when it ends.
  double end(Collectives& collectives, double latest, Operation operation, std::int64_t bytes);

 private:
  friend class Communicating;
  void stop();
  void resume(bool takes_core = true);

  Steady::time_point epoch_;
  Computed computed_;
  std::optional<ClockModel> model_;
  int rank_ = 0;
  int communicating_ = 0;  // nested scopes
  double busy_ = 0;        // stretches that have ended
  double began_ = 0;       // the value of `computed_` at the beginning of the present stretch
  double slowness_ = 1;    // of the present stretch
  std::uint64_t stretch_ = 0;
  double waited_ = 0;
  std::shared_ptr<CoreLock> core_;
  bool has_core_ = false;
  std::map<int, double> link_is_free_;  // by receiver
  double host_link_is_free_ = 0;
  std::map<std::vector<int>, Collectives> collectives_;  // by their ranks
};

/// While an object of this class lives, its rank communicates and does not compute. May be nested.
class Communicating {
 public:
  explicit Communicating(RankClock& clock) : clock_(clock) { clock_.stop(); }
  ~Communicating() { clock_.resume(std::uncaught_exceptions() == exceptions_); }
  Communicating(const Communicating&) = delete;
  Communicating& operator=(const Communicating&) = delete;

 private:
  RankClock& clock_;
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace heddle

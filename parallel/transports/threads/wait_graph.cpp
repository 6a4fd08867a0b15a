#include "parallel/transports/threads/wait_graph.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "framework/error.h"

namespace heddle {

namespace {

// The time between two looks of a sleeping rank at the clock.
constexpr std::chrono::milliseconds min_slice{10};
constexpr std::chrono::milliseconds max_slice = std::chrono::seconds(1);

}  // namespace

/// The edge of a sleeping rank, which the other ranks see while this object lives. Made and destroyed with the mutex
/// held.
class WaitGraph::Sleeping {
 public:
  Sleeping(WaitGraph& waits, const Call& call, int peer, std::function<bool()> is_ready)
      : waits_(waits), waiter_(waits.waiters_[static_cast<std::size_t>(call.rank)]) {
    waiter_.call = &call;
    waiter_.peer = peer;
    waiter_.is_ready = std::move(is_ready);
    ++waits_.asleep_;
  }
  ~Sleeping() {
    --waits_.asleep_;
    waiter_.call = nullptr;
    waiter_.woke = waits_.time_.look();
  }
  Sleeping(const Sleeping&) = delete;
  Sleeping& operator=(const Sleeping&) = delete;

 private:
  WaitGraph& waits_;
  Waiter& waiter_;
};

WaitGraph::WaitGraph(int ranks, std::chrono::milliseconds timeout)
    : timeout_(timeout),
      slice_(std::clamp(timeout / 8, min_slice, max_slice)),
      // A few dozen microseconds: longer than the difference between ranks with equal work, and too short to be
      // noticed.
      spins_(ranks <= static_cast<int>(std::thread::hardware_concurrency()) ? 2000 : 0),
      time_(2 * slice_),
      waiters_(static_cast<std::size_t>(ranks)),
      has_ended_(static_cast<std::size_t>(ranks)),
      is_away_(static_cast<std::size_t>(ranks), true) {}

void WaitGraph::pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

void WaitGraph::sleep(std::function<bool()> ready, const Call& call, int peer) {
  const double seconds = std::chrono::duration<double>(timeout_).count();
  std::unique_lock lock(mutex_);
  const WaitedTime::Clock::duration begin = time_.look();
  // Set before `ready` is checked again: a rank that makes it true afterwards sees a waiting rank to wake.
  const Sleeping sleeping(*this, call, peer, std::move(ready));
  Waiter& me = waiters_[static_cast<std::size_t>(call.rank)];
  while (!me.is_ready()) {
    if (failed_rank_ >= 0)
      fail<Stopped>("{}: stopped, because rank {} failed: {}", to_string(call), failed_rank_, why_);
    check_for_deadlock(call.rank);
    if (has_ended_[static_cast<std::size_t>(peer)] && !me.is_ready())
      fail<RankFailed>("{}: rank {} has already finished", to_string(call), peer);
    // Time in which the peer itself waits is not counted against it. A chain of waits has at most as many links as
    // ranks.
    const Waiter& other = waiters_[static_cast<std::size_t>(peer)];
    const WaitedTime::Clock::duration now = time_.look();
    const auto deadline = std::min(std::max(begin, other.call != nullptr ? now : other.woke) + timeout_,
                                   begin + timeout_ * static_cast<int>(waiters_.size()));
    if (now >= deadline)
      fail<RankFailed>("{}: timed out after {} s waiting for rank {}", to_string(call), seconds, peer);
    me.woken.wait_for(lock, std::min<WaitedTime::Clock::duration>(slice_, deadline - now));
  }
}

/// Called with the mutex held, by a rank that goes to sleep. If the edges lead back to this rank, and none of the ranks
/// on the way has become ready meanwhile, none ever will. The last rank that goes to sleep finds the cycle.
void WaitGraph::check_for_deadlock(int rank) const {
  std::vector<int> cycle;
  int next = rank;
  do {
    const Waiter& waiter = waiters_[static_cast<std::size_t>(next)];
    if (waiter.call == nullptr || waiter.is_ready()) return;
    cycle.push_back(next);
    next = waiter.peer;
  } while (next != rank && cycle.size() < waiters_.size());
  if (next != rank) return;
  std::rotate(cycle.begin(), std::min_element(cycle.begin(), cycle.end()), cycle.end());
  std::string text;
  for (const int member : cycle) {
    const Waiter& waiter = waiters_[static_cast<std::size_t>(member)];
    text += fmt::format("{}{} waits for rank {}", text.empty() ? "" : "; ", to_string(*waiter.call), waiter.peer);
  }
  fail<RankFailed>("deadlock: {}", text);
}

void WaitGraph::notify(int rank) {
  if (asleep_.load() == 0) return;
  const std::lock_guard lock(mutex_);
  // Only ranks that are ready are woken: with many ranks on few cores, waking all would cost more than the work.
  for (Waiter& waiter : waiters_)
    if (waiter.call != nullptr && waiter.peer == rank && waiter.is_ready()) waiter.woken.notify_one();
}

void WaitGraph::failed(int rank, std::string_view why) {
  const std::lock_guard lock(mutex_);
  if (failed_rank_ < 0) {
    failed_rank_ = rank;
    why_ = why;
  }
  for (Waiter& waiter : waiters_) waiter.woken.notify_one();
  news_.notify_all();
}

void WaitGraph::ended(int rank) {
  const std::lock_guard lock(mutex_);
  has_ended_[static_cast<std::size_t>(rank)] = true;
  for (Waiter& waiter : waiters_) waiter.woken.notify_one();
}

void WaitGraph::returned(int rank) {
  const std::lock_guard lock(mutex_);
  is_away_[static_cast<std::size_t>(rank)] = false;
  news_.notify_all();
}

void WaitGraph::await(int count, std::chrono::milliseconds patience,
                      const std::function<void(const std::string& why)>& on_stall) {
  const auto first_away = [&] { return std::find(is_away_.begin(), is_away_.begin() + count, true); };
  const auto all_are_back = [&] { return first_away() == is_away_.begin() + count; };
  std::unique_lock lock(mutex_);
  news_.wait(lock, [&] { return all_are_back() || failed_rank_ >= 0; });
  if (news_.wait_for(lock, patience, all_are_back)) return;
  const std::string why =
      fmt::format("rank {} failed: {}; rank {} did not end within {} s after that", failed_rank_, why_,
                  first_away() - is_away_.begin(), std::chrono::duration<double>(patience).count());
  lock.unlock();
  if (on_stall) on_stall(why);
}

}  // namespace heddle

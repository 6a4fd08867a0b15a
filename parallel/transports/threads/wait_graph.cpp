#include "parallel/transports/threads/wait_graph.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "framework/error.h"
#include "parallel/communicator/core_binding.h"

namespace heddle {

namespace {

// The time between two looks of a sleeping rank at the clock.
constexpr std::chrono::milliseconds min_slice{10};
constexpr std::chrono::milliseconds max_slice = std::chrono::seconds(1);
// A century, so that the clock's nanoseconds do not overflow.
constexpr std::chrono::milliseconds max_timeout = std::chrono::hours(24 * 365 * 100);

}  // namespace

/// The edge of a sleeping rank, which the other ranks see while this object lives. Made and destroyed with the mutex
/// held.
class WaitGraph::Sleeping {
 public:
  Sleeping(WaitGraph& waits, const Call& call, NextRank next)
      : waits_(waits), waiter_(waits.waiter(call.rank)), rank_(call.rank) {
    waiter_.call = &call;
    waiter_.next = std::move(next);
    ++waits_.asleep_;
  }
  ~Sleeping() {
    --waits_.asleep_;
    waiter_.call = nullptr;
    waiter_.woke = waits_.time_.look();
    waits_.draw_edge(rank_, {});
  }
  Sleeping(const Sleeping&) = delete;
  Sleeping& operator=(const Sleeping&) = delete;

 private:
  WaitGraph& waits_;
  Waiter& waiter_;
  int rank_;
};

WaitGraph::WaitGraph(int ranks, std::chrono::milliseconds timeout)
    : timeout_(std::min(timeout, max_timeout)),
      slice_(std::clamp(timeout / 8, min_slice, max_slice)),
      shares_cores_(ranks > usable_cores()),
      // Ranks with a core each try for a few dozen microseconds: longer than the difference between ranks with equal
      // work, and too short to be noticed. Ranks that share cores let the others go first: what is awaited has often
      // come when it is their turn again, and no rank had to be woken.
      tries_(shares_cores_ ? 2 : 2000),
      time_(2 * slice_),
      waiters_(static_cast<std::size_t>(ranks)),
      has_ended_(static_cast<std::size_t>(ranks)),
      is_running_(static_cast<std::size_t>(ranks), true) {}

void WaitGraph::pause_briefly() const {
#if defined(__x86_64__)
  if (!shares_cores_) return __builtin_ia32_pause();
#endif
  std::this_thread::yield();
}

void WaitGraph::sleep(NextRank next, const Call& call) {
  const double seconds = std::chrono::duration<double>(timeout_).count();
  std::unique_lock lock(mutex_);
  // Before `next` is asked again: a rank that changes its answer afterwards sees a waiting rank.
  const Sleeping sleeping(*this, call, std::move(next));
  Waiter& me = waiter(call.rank);
  while (true) {
    draw_edge(call.rank, me.next());
    if (!me.peer) return;
    if (failure_)
      fail<Stopped>("{}: stopped, because rank {} failed: {}", to_string(call), failure_->rank, failure_->why);
    check_for_deadlock(call.rank);
    if (has_ended_[static_cast<std::size_t>(*me.peer)])
      fail<RankFailed>("{}: rank {} has already finished", to_string(call), *me.peer);
    // Time in which the peer itself waits is not counted against it. A chain of waits has at most as many links as
    // ranks.
    const Waiter& other = waiter(*me.peer);
    const WaitedTime::Clock::duration now = time_.look();
    const auto longest = std::min(timeout_ * static_cast<std::int64_t>(waiters_.size()), max_timeout);
    const auto deadline =
        std::min(std::max(me.since, other.call != nullptr ? now : other.woke) + timeout_, me.since + longest);
    if (now >= deadline)
      fail<RankFailed>("{}: timed out after {} s waiting for rank {}", to_string(call), seconds, *me.peer);
    me.woken.wait_for(lock, std::min<WaitedTime::Clock::duration>(slice_, deadline - now));
  }
}

/// Lets the edge of a sleeping rank lead to `peer`, or removes it. Called with the mutex held.
void WaitGraph::draw_edge(int rank, std::optional<int> peer) {
  Waiter& me = waiter(rank);
  if (peer == me.peer) return;
  if (me.peer) std::erase(waiter(*me.peer).awaited_by, rank);
  if (peer) waiter(*peer).awaited_by.push_back(rank);
  me.peer = peer;
  me.since = time_.look();
}

/// The sleeping ranks that wait for each other in a cycle, if this one is among them. What one of them waits for can
/// only come from another one, and so never comes. Called with the mutex held.
std::vector<int> WaitGraph::cycle_through(int rank) {
  std::vector<int> cycle;
  int member = rank;
  do {
    const Waiter& sleeping = waiter(member);
    if (sleeping.call == nullptr) return {};
    cycle.push_back(member);
    // Not the edge, which may be old: what it stands for may have arrived a moment ago.
    const std::optional<int> next = sleeping.next();
    if (!next) return {};
    member = *next;
  } while (member != rank && cycle.size() < waiters_.size());
  if (member != rank) return {};
  return cycle;
}

/// The rank whose edge closes a cycle finds it.
void WaitGraph::check_for_deadlock(int rank) {
  std::vector<int> cycle = cycle_through(rank);
  if (cycle.empty()) return;
  std::rotate(cycle.begin(), std::min_element(cycle.begin(), cycle.end()), cycle.end());
  std::string text;
  for (std::size_t i = 0; i < cycle.size(); ++i)
    text += fmt::format("{}{} waits for rank {}", text.empty() ? "" : "; ", to_string(*waiter(cycle[i]).call),
                        cycle[(i + 1) % cycle.size()]);
  fail<RankFailed>("deadlock: {}", text);
}

void WaitGraph::notify(int rank) {
  if (asleep_.load() == 0) return;
  // With many ranks on few cores, waking one costs more than most of their work. So only those are woken that can go
  // on, or whose next edge closes a cycle; and after the mutex is released, which they take at once.
  std::vector<std::condition_variable*> woken;
  {
    const std::lock_guard lock(mutex_);
    std::vector<int>& waiting = waiter(rank).awaited_by;
    for (std::size_t i = 0; i < waiting.size();) {
      const int other = waiting[i];
      const std::optional<int> peer = waiter(other).next();
      draw_edge(other, peer);
      if (peer == rank) {
        ++i;
        continue;
      }
      if (!peer || has_ended_[static_cast<std::size_t>(*peer)] || !cycle_through(other).empty())
        woken.push_back(&waiter(other).woken);
    }
  }
  for (std::condition_variable* const one : woken) one->notify_one();
}

void WaitGraph::failed(int rank, std::string_view why) {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = {rank, std::string(why)};
  for (Waiter& waiter : waiters_) waiter.woken.notify_one();
  rank_stopped_.notify_all();
}

void WaitGraph::ended(int rank) {
  const std::lock_guard lock(mutex_);
  has_ended_[static_cast<std::size_t>(rank)] = true;
  for (Waiter& waiter : waiters_) waiter.woken.notify_one();
}

void WaitGraph::returned(int rank) {
  const std::lock_guard lock(mutex_);
  is_running_[static_cast<std::size_t>(rank)] = false;
  rank_stopped_.notify_all();
}

void WaitGraph::await(int count, std::chrono::milliseconds patience,
                      const std::function<void(const std::string& why)>& on_stall) {
  const auto first_running = [&] { return std::find(is_running_.begin(), is_running_.begin() + count, true); };
  const auto have_all_returned = [&] { return first_running() == is_running_.begin() + count; };
  std::unique_lock lock(mutex_);
  rank_stopped_.wait(lock, [&] { return have_all_returned() || failure_; });
  if (rank_stopped_.wait_for(lock, patience, have_all_returned)) return;
  const std::string why =
      fmt::format("rank {} failed: {}; rank {} did not end within {} s after that", failure_->rank, failure_->why,
                  first_running() - is_running_.begin(), std::chrono::duration<double>(patience).count());
  lock.unlock();
  if (on_stall) on_stall(why);
}

}  // namespace heddle

// The waits of the ranks of one process for each other, as a wait-for graph: each waiting rank has one edge, to the
// first of the ranks that it waits for. A rank asks again for a short time, and then sleeps until the last of them
// wakes it. Every wait ends: with an error if an awaited rank failed or ended, if the waits form a cycle, or after a
// timeout.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "parallel/communicator/transport.h"
#include "parallel/communicator/waited_time.h"

namespace heddle {

class WaitGraph {
 public:
  WaitGraph(int ranks, std::chrono::milliseconds timeout);

  /// Returns when `next` returns nothing. Until then it returns the world rank that is waited for next: only that rank
  /// can change the answer, before it calls `notify`. `call` is that of the waiting rank. Stopped if a rank failed;
  /// RankFailed if an awaited rank has ended, does not come within the timeout, or waits for this rank itself, directly
  /// or through others.
  template <class Next>
  void wait(Next next, const Call& call) {
    for (int i = 0; i < tries_; ++i) {
      if (!next()) return;
      pause_briefly();
    }
    sleep([&next] { return next(); }, call);
  }
  /// To be called by a rank after every change that other ranks may wait for.
  void notify(int rank);

  void failed(int rank, std::string_view why);
  void ended(int rank);
  void returned(int rank);
  /// See ThreadsWorld.
  void await(int count, std::chrono::milliseconds patience,
             const std::function<void(const std::string& why)>& on_stall);

 private:
  using NextRank = std::function<std::optional<int>()>;
  /// A rank, and if it sleeps, its call and its edge.
  struct Waiter {
    std::condition_variable woken;
    const Call* call = nullptr;
    NextRank next;
    std::optional<int> peer;              // what `next` returned when the edge was drawn
    WaitedTime::Clock::duration since{};  // when the edge was drawn
    WaitedTime::Clock::duration woke{};   // when it last stopped waiting
    std::vector<int> awaited_by;          // the ranks whose edges lead to this one
  };
  class Sleeping;
  struct RankFailure {
    int rank;
    std::string why;
  };

  void pause_briefly() const;
  void sleep(NextRank next, const Call& call);
  Waiter& waiter(int rank) { return waiters_[static_cast<std::size_t>(rank)]; }
  void draw_edge(int rank, std::optional<int> peer);
  std::vector<int> cycle_through(int rank);
  void check_for_deadlock(int rank);

  const std::chrono::milliseconds timeout_;
  const std::chrono::milliseconds slice_;  // the longest sleep
  const bool shares_cores_;                // there are more ranks than cores
  const int tries_;                        // before a rank sleeps
  std::mutex mutex_;
  WaitedTime time_;  // runs while any rank sleeps
  std::atomic<int> asleep_{0};
  std::vector<Waiter> waiters_;  // one per world rank, like the next members
  std::vector<bool> has_ended_;
  std::vector<bool> is_running_;          // until its thread is about to end
  std::condition_variable rank_stopped_;  // a rank has returned or failed
  std::optional<RankFailure> failure_;    // the first
};

}  // namespace heddle

// The waits of a call: for messages and elements, with a timeout and the search for deadlocks.
#include <algorithm>
#include <thread>
#include <utility>

#include "parallel/transports/processes/element_path.h"
#include "parallel/transports/processes/progress_engine.h"

namespace heddle {

namespace {

// A rank that waits asks the rank that it waits for, at least this often, whether that one waits, too.
constexpr std::chrono::milliseconds max_probe_interval = std::chrono::seconds(1);
// The bounds of max_gap: a process that runs looks at the clock every few milliseconds, one that was stopped does not.
constexpr std::chrono::milliseconds min_gap_limit{10};
constexpr std::chrono::milliseconds max_gap_limit = std::chrono::seconds(1);

}  // namespace

void ProgressEngine::wait(const std::function<bool()>& ready, const Call& call, std::span<const int> peers,
                          Awaited awaited) {
  try {
    if (ready()) return;
    waiting_.emplace(
        Waiting{.number = ++waits_, .call = call, .peers = peers, .awaited = awaited, .time = WaitedTime(max_gap())});
    const auto no_longer_waiting = [this](void*) {
      waiting_.reset();
      probes_.clear();
    };
    const std::unique_ptr<void, decltype(no_longer_waiting)> scope(this, no_longer_waiting);
    poll_until(ready);
  } catch (const ElementsLost& error) {
    const RankFailed failure(fmt::format("{}: {}", to_string(call), error.what()));
    give_up(std::make_exception_ptr(failure));
    throw failure;
  } catch (...) {
    give_up(std::current_exception());
    throw;
  }
}

/// Reports the failure first: the path may have to wait until the other processes give up, too.
void ProgressEngine::give_up(const std::exception_ptr& exception) {
  if (const std::optional<Failure> failure = failure_of(exception)) report(*failure);
  path_->abandon();
}

ProgressEngine::Clock::duration ProgressEngine::max_gap() const {
  return std::clamp(timeout_ / 2, min_gap_limit, max_gap_limit);
}

void ProgressEngine::poll_until(const std::function<bool()>& ready) {
  const auto probe_interval = std::min(max_probe_interval, timeout_ / 4);
  Clock::time_point next_probe = Clock::now() + probe_interval;
  for (int idle_polls = 0;; ++idle_polls) {
    poll();
    if (ready()) return;
    check_for_failure();
    check_timeout();
    answer_probes();
    if (Clock::now() > next_probe) {
      next_probe = Clock::now() + probe_interval;
      probe();
    }
    back_off(idle_polls);
  }
}

/// Time in which the peer itself waits is not counted against it: the rank that it waits for is late. A chain of
/// waiting ranks has at most as many links as there are ranks.
void ProgressEngine::check_timeout() {
  const Clock::duration passed = waiting_->time.look();
  if (passed - waiting_->peer_waited <= timeout_ && passed <= timeout_ * size()) return;
  const std::string why = fmt::format("{}: timed out after {} s waiting for rank {}", to_string(waiting_->call),
                                      std::chrono::duration<double>(timeout_).count(), waiting_->peer());
  throw RankLate(why, waiting_->peer());
}

void ProgressEngine::check_for_failure() {
  const Section& section = section_of(section_);
  if (section.first_failed)
    fail<Stopped>("{}: stopped, because rank {} failed: {}", to_string(waiting_->call), *section.first_failed,
                  section.failures.at(*section.first_failed).why);
  const auto peer = static_cast<std::size_t>(waiting_->peer());
  if (const std::optional<std::string> why = why_lost(waiting_->peer()))
    fail<RankFailed>("{}: {}", to_string(waiting_->call), *why);
  if ((section.ended[peer] || left_[peer]) && waiting_->awaited == Awaited::message)
    fail<RankFailed>("{}: rank {} has already finished", to_string(waiting_->call), peer);
}

void ProgressEngine::back_off(int idle_polls) const {
  using std::chrono::microseconds;
  const int spins = is_oversubscribed_ ? 20 : 2000;
  // Transfers under way move only while this process polls.
  if (idle_polls < spins || !transfers_.empty()) {
    if (is_oversubscribed_) std::this_thread::yield();
    return;
  }
  const int sleeps = idle_polls - spins;
  std::this_thread::sleep_for(microseconds(sleeps < 2000 ? 20 : sleeps < 20000 ? 100 : 1000));
}

WaitLink ProgressEngine::own_link() const {
  return {rank(), waiting_->number, to_string(waiting_->call), waiting_->answered_in};
}

/// While elements are under way to the peer, this rank does not depend on the peer's next action; elements between all
/// ranks of a group move without control messages.
bool ProgressEngine::depends_on_peer() const {
  return waiting_->awaited != Awaited::elements_of_group && !is_sending_to(waiting_->peer());
}

/// Asks the rank that this one waits for whether it waits, too.
void ProgressEngine::probe() {
  if (depends_on_peer() || waiting_->awaited == Awaited::elements_of_group) send_chain(deadlocks_.begin(own_link()));
}

/// To be called once this rank has processed everything that arrived: the answer says that none of it ended the wait.
void ProgressEngine::answer_probes() {
  for (auto& [from, chain] : std::exchange(probes_, {})) {
    const bool is_blocked = waiting_->awaited != Awaited::elements_of_group && !is_sending_to(from);
    begin(Kind::waits_too, section_);
    message_.put(chain.links.back().number);
    message_.put(is_blocked ? waiting_->number : 0);
    send(from);
    if (!is_blocked || !depends_on_peer()) continue;
    if (const std::optional<WaitChain> longer = deadlocks_.extend(std::move(chain), own_link())) send_chain(*longer);
  }
}

void ProgressEngine::send_chain(const WaitChain& chain) {
  begin(Kind::probe, section_);
  put_chain(message_, chain);
  send(waiting_->peer());
}

bool ProgressEngine::is_sending_to(int peer) const {
  return std::any_of(transfers_.begin(), transfers_.end(),
                     [peer](const auto& transfer) { return transfer->is_send && transfer->peer == peer; });
}

}  // namespace heddle

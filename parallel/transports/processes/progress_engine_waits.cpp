// Waits for what comes, and the ends of sections, which are waited for, too.
#include <algorithm>
#include <thread>
#include <utility>

#include "parallel/transports/processes/element_path.h"
#include "parallel/transports/processes/progress_engine.h"

namespace heddle {

namespace {

// How long a rank waits before it asks whether others wait for it in turn, and how often it asks: at most.
constexpr std::chrono::milliseconds max_probe_interval = std::chrono::seconds(1);
// Between two looks at the time of a wait: a process that runs looks more often than every few milliseconds.
constexpr std::chrono::milliseconds min_unseen{10};
constexpr std::chrono::milliseconds max_unseen = std::chrono::seconds(1);
// How long others may take to notice a failure, e.g. because they compute: as long as a wait may last, within these.
constexpr std::chrono::milliseconds min_grace = std::chrono::seconds(10);
constexpr std::chrono::milliseconds max_grace = std::chrono::minutes(1);
// The same for ranks that are known not to have responded for as long as a wait may last. Longer than max_silence.
constexpr std::chrono::milliseconds grace_of_late{1200};
// The same for ranks whose machine does not acknowledge: it takes up to a second to know that.
constexpr std::chrono::milliseconds grace_of_silent = std::chrono::seconds(2);
// How long rank 0 may be silent, once it is late, before another rank reports that.
constexpr std::chrono::milliseconds max_silence = std::chrono::seconds(1);

}  // namespace

// ---- waits ---------------------------------------------------------------------------------------------------------

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
  return std::clamp(timeout_ / 2, min_unseen, max_unseen);
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

// ---- between sections ----------------------------------------------------------------------------------------------

void ProgressEngine::report(const Failure& failure, std::uint64_t section) {
  record_failure(section_of(section), rank(), failure);
  begin(Kind::failed, section);
  message_.put(failure.kind);
  message_.put_text(failure.why);
  message_.put_rank(failure.late_rank);
  send_to_all();
}

/// How long the processes without a part in the end of the section are waited for after a failure.
std::chrono::milliseconds ProgressEngine::grace(const Section& section) const {
  std::chrono::milliseconds grace = grace_of_late;
  for (int p = 0; p < size(); ++p) {
    const auto i = static_cast<std::size_t>(p);
    const bool is_late = std::any_of(section.failures.begin(), section.failures.end(),
                                     [p](const auto& failed) { return failed.second.late_rank == p; });
    if (section.ended[i] || left_[i] || is_late) continue;
    if (!wire_->is_silent(p)) return std::clamp(timeout_, min_grace, max_grace);
    grace = grace_of_silent;
  }
  return grace;
}

template <class Ready>
bool ProgressEngine::wait_for_others(const Ready& ready) {
  std::optional<WaitedTime> since_failure;
  for (int idle_polls = 0; !is_broken_; ++idle_polls) {
    try {
      poll();
    } catch (const ElementsLost& error) {
      report({Failure::Kind::rank_failed, fmt::format("rank {}: {}", rank(), error.what())});
      path_->abandon();
    }
    if (ready()) return true;
    if (!since_failure && !section_of(section_).failures.empty()) {
      path_->abandon();
      since_failure.emplace(max_gap());
    }
    if (since_failure) {
      report_for_leader();
      is_broken_ = since_failure->look() > grace(section_of(section_));
      if (is_broken_) has_leader_ = !section_of(section_).is_reported;
    }
    back_off(idle_polls);
  }
  return false;
}

/// Where rank 0 is late, or its machine does not acknowledge, each rank that responds announces it to all. The lowest
/// of them reports it if rank 0 does not respond.
void ProgressEngine::report_for_leader() {
  Section& section = section_of(section_);
  const auto late = std::find_if(section.failures.begin(), section.failures.end(),
                                 [](const auto& failed) { return failed.second.late_rank == 0; });
  const bool is_known_late = late != section.failures.end();
  if (!is_known_late && !wire_->is_silent(0)) return;
  const auto announce = [&](bool is_reported) {
    begin(Kind::responsive, section_);
    message_.put(is_reported);
    send_to_all();
  };
  if (!section.silence) {
    section.silence.emplace(max_gap());
    section.responsive_ranks.insert(rank());
    return announce(false);
  }
  if (section.is_reported || *section.responsive_ranks.begin() != rank() || rank() == 0 || left_[0]) return;
  if (section.silence->look() < max_silence) return;
  section.is_reported = true;
  announce(true);
  const Failure& failure = is_known_late ? late->second : section.failures.at(*section.first_failed);
  if (on_silent_leader_) on_silent_leader_(failure.why);
}

std::map<int, Failure> ProgressEngine::conclude() {
  // Elements that other ranks have requested are still to be delivered: they have the memory for them.
  const auto is_send = [](const auto& transfer) { return transfer->is_send; };
  wait_for_others([&] { return std::none_of(transfers_.begin(), transfers_.end(), is_send); });
  begin(Kind::ended, section_);
  send_to_all();
  Section& section = section_of(section_);
  section.ended[static_cast<std::size_t>(rank())] = true;
  const bool is_clean = wait_for_others([&] {
    for (std::size_t p = 0; p < left_.size(); ++p)
      if (!section.ended[p] && !left_[p]) return false;
    return true;
  });
  // A process that has ended its part is there, also if it has left since then.
  missing_.clear();
  for (int p = 0; p < size(); ++p)
    if (!section.ended[static_cast<std::size_t>(p)]) missing_.insert(p);
  if (is_clean) {
    // No process sends to these any more.
    for (const std::shared_ptr<Transfer>& transfer : transfers_) transfer->wire->cancel();
    transfers_.clear();
  }
  std::map<int, Failure> failures = std::move(section.failures);
  sections_.erase(section_++);
  return failures;
}

std::vector<std::string> ProgressEngine::gather(const std::string& content) {
  if (rank() != 0) {
    begin(Kind::gathered, section_);
    message_.put_text(content);
    send(0);
    return {};
  }
  std::vector<std::string> all(left_.size());
  all[0] = content;
  wait_for_others([&] {
    for (int p = 1; p < size(); ++p)
      if (gathered_[p].empty() && !left_[static_cast<std::size_t>(p)]) return false;
    return true;
  });
  for (int p = 1; p < size(); ++p) {
    std::deque<std::string>& messages = gathered_[p];
    if (messages.empty()) continue;
    all[static_cast<std::size_t>(p)] = std::move(messages.front());
    messages.pop_front();
  }
  return all;
}

std::optional<std::string> ProgressEngine::why_lost(int process) const {
  const auto found = lost_.find(process);
  if (found == lost_.end()) return {};
  return found->second;
}

void ProgressEngine::leave(int code) {
  begin(Kind::ended, no_more_sections);
  send_to_all();
  left_[static_cast<std::size_t>(rank())] = true;
  if (wait_for_others([&] { return std::all_of(left_.begin(), left_.end(), [](bool left) { return left; }); }))
    return wire_->leave();
  const Clock::time_point deadline = Clock::now() + min_grace;
  for (int idle_polls = 0; has_leader_ && !left_[0] && !wire_->is_silent(0) && Clock::now() < deadline; ++idle_polls) {
    poll();
    back_off(idle_polls);
  }
  // The launcher still has to pass on the last output of the processes.
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  wire_->abort(code);
}

}  // namespace heddle

// The ends of sections, what happens between them, and the end of the job.
#include <algorithm>
#include <thread>
#include <utility>

#include "parallel/transports/processes/element_path.h"
#include "parallel/transports/processes/progress_engine.h"

namespace heddle {

namespace {

// How long others may take to notice a failure, for example because they compute: the timeout of waits, within these.
constexpr std::chrono::milliseconds min_grace = std::chrono::seconds(10);
constexpr std::chrono::milliseconds max_grace = std::chrono::minutes(1);
// The same for ranks that are known not to have responded within the timeout. Longer than max_silence.
constexpr std::chrono::milliseconds grace_of_late{1200};
// The same for ranks whose machine does not acknowledge, which takes up to a second to find out.
constexpr std::chrono::milliseconds grace_of_silent = std::chrono::seconds(2);
// How long rank 0 may be silent, once it is late, before another rank reports that.
constexpr std::chrono::milliseconds max_silence = std::chrono::seconds(1);

}  // namespace

void ProgressEngine::report(const Failure& failure, std::uint64_t section) {
  record_failure(section_of(section), rank(), failure);
  begin(Kind::failed, section);
  message_.put(failure.kind);
  message_.put_text(failure.why);
  message_.put_rank(failure.late_rank);
  send_to_all();
}

/// Whether that rank has not responded within the timeout of another one.
bool ProgressEngine::is_late(const Section& section, int rank) {
  return std::any_of(section.failures.begin(), section.failures.end(),
                     [rank](const auto& failed) { return failed.second.late_rank == rank; });
}

/// How long the processes without a part in the end of the section are waited for after a failure.
std::chrono::milliseconds ProgressEngine::grace(const Section& section) const {
  std::chrono::milliseconds grace = grace_of_late;
  for (int p = 0; p < size(); ++p) {
    const auto i = static_cast<std::size_t>(p);
    if (p == rank() || section.ended[i] || left_[i] || is_late(section, p)) continue;
    if (!wire_->is_silent(p)) return std::clamp(timeout_, min_grace, max_grace);
    grace = grace_of_silent;
  }
  return grace;
}

/// Waits until there is no rank that `awaited` returns. False if one does not respond within the limit. A process that
/// is not needed waits for as long as the others take: those that wait for each other report which of them is late.
template <class FirstAwaited>
bool ProgressEngine::wait_for_others(const FirstAwaited& awaited, std::chrono::milliseconds limit) {
  WaitedTime waited(max_gap());
  std::optional<WaitedTime> since_failure;
  for (int idle_polls = 0; !is_broken_; ++idle_polls) {
    try {
      poll();
    } catch (const ElementsLost& error) {
      report({Failure::Kind::rank_failed, fmt::format("rank {}: {}", rank(), error.what())});
      path_->abandon();
    }
    const std::optional<int> late = awaited();
    if (!late) return true;
    if (rank() < needed_ && waited.look() > limit && section_of(section_).failures.empty())
      report({.kind = Failure::Kind::rank_failed,
              .why = fmt::format("rank {} did not respond within {} s", *late,
                                 std::chrono::duration<double>(limit).count()),
              .late_rank = late});
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
  Section& section = section_of(section_);
  // Elements that other ranks have requested are still to be delivered: they have the memory for them. A rank that is
  // late may never take them, and the others must not wait for this one because of that.
  const auto receiver = [&](bool of_late_ranks) -> std::optional<int> {
    for (const std::shared_ptr<Transfer>& transfer : transfers_)
      if (transfer->is_send && (of_late_ranks || !is_late(section, transfer->peer))) return transfer->peer;
    return {};
  };
  wait_for_others([&] { return receiver(false); }, section_timeout());
  begin(Kind::ended, section_);
  send_to_all();
  section.ended[static_cast<std::size_t>(rank())] = true;
  const auto unended = [&]() -> std::optional<int> {
    for (int p = 0; p < needed_; ++p) {
      const auto i = static_cast<std::size_t>(p);
      if (!section.ended[i] && !left_[i]) return p;
    }
    return receiver(true);
  };
  const bool has_ended_everywhere = wait_for_others(unended, section_timeout());
  // A process that has ended its part is there, also if it has left since then. So is one that was not waited for,
  // unless it is lost.
  const auto is_missing = [&](int p) {
    return !section.ended[static_cast<std::size_t>(p)] && (p < needed_ || lost_.contains(p));
  };
  if (!has_concluded_broken_) {  // else nothing has been received since
    missing_.clear();
    for (int p = 0; p < size(); ++p)
      if (is_missing(p)) missing_.insert(p);
  }
  has_concluded_broken_ = is_broken_;
  if (has_ended_everywhere) {
    // What is left are receives of a section that has failed. A rank that was late may still send to them.
    for (const std::shared_ptr<Transfer>& transfer : transfers_) transfer->wire->cancel();
    transfers_.clear();
  }
  std::map<int, Failure> failures = std::move(section.failures);
  sections_.erase(section_++);
  return failures;
}

/// A process that is not needed sends nothing: its text could arrive once rank 0 no longer waits for it, and would then
/// be taken for that of the next call.
std::vector<std::string> ProgressEngine::gather(const std::string& content) {
  if (rank() >= needed_) return {};
  if (rank() != 0) {
    begin(Kind::gathered, section_);
    message_.put_text(content);
    send(0);
    return {};
  }
  std::vector<std::string> all(left_.size());
  all[0] = content;
  const auto silent = [&]() -> std::optional<int> {
    for (int p = 1; p < needed_; ++p)
      if (gathered_[p].empty() && !left_[static_cast<std::size_t>(p)]) return p;
    return {};
  };
  // Half as long as the others wait for this rank meanwhile, so that it is not taken for the late one.
  wait_for_others(silent, section_timeout() / 2);
  for (int p = 1; p < needed_; ++p) {
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
  const auto remaining = [&]() -> std::optional<int> {
    const auto found = std::find(left_.begin(), left_.end(), false);
    return found == left_.end() ? std::nullopt : std::optional(static_cast<int>(found - left_.begin()));
  };
  // Once rank 0 leaves, it has written the results, and no process has anything left to do.
  if (wait_for_others(remaining, rank() == 0 ? std::max(timeout_, min_grace) : section_timeout()))
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

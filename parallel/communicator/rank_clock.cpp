#include "parallel/communicator/rank_clock.h"

#include <algorithm>
#include <ctime>
#include <utility>

namespace heddle {

double thread_cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double steady_seconds() {
  return std::chrono::duration<double>(RankClock::Steady::now().time_since_epoch()).count();
}

RankClock::RankClock(Steady::time_point epoch, Computed computed)
    : epoch_(epoch), computed_(std::move(computed)), began_(computed_()) {}

RankClock::RankClock(int rank, const ClockModel& model, Computed computed)
    : computed_(std::move(computed)), model_(model), rank_(rank) {
  communicating_ = 1;
  resume();
}

double RankClock::now() const {
  if (!model_) return std::chrono::duration<double>(Steady::now() - epoch_).count();
  return busy_seconds() + waited_;
}

double RankClock::busy_seconds() const {
  return communicating_ > 0 ? busy_ : busy_ + (computed_() - began_) * slowness_;
}

void RankClock::compute_under(std::shared_ptr<CoreLock> core) {
  stop();
  core_ = std::move(core);
  resume();
}

void RankClock::stop() {
  busy_ = busy_seconds();
  ++communicating_;
  if (std::exchange(has_core_, false)) core_->unlock();
}

void RankClock::resume(bool takes_core) {
  if (--communicating_ > 0) return;
  if (core_ && takes_core) {
    core_->lock();
    has_core_ = true;
  }
  if (model_) {
    const double u =
        2 * RandomStream(model_->key, Purpose::jitter, stretch_++, static_cast<std::uint64_t>(rank_)).uniform() - 1;
    slowness_ = (1 + model_->jitter * u) / model_->speed;
  }
  began_ = computed_();
}

void RankClock::wait_until(double seconds) {
  if (model_) waited_ += std::max(0.0, seconds - now());
}

double RankClock::departure(int to, std::int64_t bytes) {
  if (!model_) return now();
  double& is_free = link_is_free_[to];
  const double departs = std::max(now(), is_free);
  is_free = left(departs, rank_, to, bytes);
  return departs;
}

RankClock::Interval RankClock::transfer(std::int64_t bytes, const std::function<void()>& move) {
  const double posted = now();
  {
    const Communicating scope(*this);
    move();
  }
  if (!model_) return {posted, now()};
  const double begin = std::max(posted, host_link_is_free_);
  host_link_is_free_ = begin + host_transfer_seconds(model_->links, bytes);
  return {begin, host_link_is_free_};
}

double RankClock::left(double departed, int from, int to, std::int64_t bytes) const {
  return departed + static_cast<double>(bytes) / model_->links.link(from, to).bandwidth;
}

double RankClock::arrival(double departed, int from, int to, std::int64_t bytes) const {
  return departed + message_seconds(model_->links, from, to, bytes);
}

RankClock::Collectives* RankClock::collectives_of(std::span<const int> world_ranks) {
  if (!model_) return nullptr;
  const auto [entry, is_new] = collectives_.try_emplace({world_ranks.begin(), world_ranks.end()});
  if (is_new) entry->second.spread = spread_of(model_->links, world_ranks);
  return &entry->second;
}

double RankClock::end(Collectives& collectives, double latest, Operation operation, std::int64_t bytes) {
  collectives.ended =
      std::max(latest, collectives.ended) + collective_seconds(model_->links, operation, bytes, collectives.spread);
  return collectives.ended;
}

}  // namespace heddle

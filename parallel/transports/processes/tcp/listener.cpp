#include "parallel/transports/processes/tcp/listener.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <type_traits>
#include <utility>

#include <poll.h>

#include "framework/error.h"

namespace heddle {

static_assert(std::is_trivially_copyable_v<TcpHello> && sizeof(TcpHello) == 104);

std::string TcpHello::machine_name() const {
  return {machine.begin(), std::find(machine.begin(), machine.end(), '\0')};
}

std::optional<TcpListener::Incoming> TcpListener::next(std::span<const TcpSocket> known, Deadline deadline) {
  for (;;) {
    const Deadline now = TcpSocket::Clock::now();
    if (std::optional<Incoming> incoming = progress_pending(now)) return incoming;
    if (now >= deadline) return {};
    if (wait(known, deadline)) accept();
  }
}

/// Makes progress with all connections until one has sent its hello. Closes those that are refused or too late.
std::optional<TcpListener::Incoming> TcpListener::progress_pending(Deadline now) {
  for (auto pending = pending_.begin(); pending != pending_.end();) {
    const State state = pending->is_readable ? progress(*pending) : State::unfinished;
    pending->is_readable = false;
    if (state == State::unfinished && now < pending->end) {
      ++pending;
      continue;
    }
    Incoming incoming{std::move(pending->socket), pending->hello};
    const std::string why = pending->handshake.why_refused();
    pending = pending_.erase(pending);
    if (state == State::done) return incoming;
    if (!why.empty()) record_rejection(incoming.socket.peer_address(), why);
  }
  return {};
}

void TcpListener::record_rejection(const TcpAddress& from, std::string_view why) {
  last_rejection_ = fmt::format("; a process at {} was turned away: {}", to_string(from), why);
}

/// Reads what has arrived of the handshake and the hello, and no more.
TcpListener::State TcpListener::progress(Pending& pending) {
  if (const State state = pending.handshake.progress(pending.socket, secret_); state != State::done) return state;
  if (!std::exchange(pending.is_proved, true)) pending.end = TcpSocket::Clock::now() + hello_timeout;
  const std::span<std::byte> rest = std::as_writable_bytes(std::span(&pending.hello, 1)).subspan(pending.read);
  const std::optional<std::size_t> count = pending.socket.read_some(rest);
  if (!count) return State::refused;
  pending.read += *count;
  return *count == rest.size() ? State::done : State::unfinished;
}

std::vector<TcpListener::Pending>::iterator TcpListener::oldest_unproved() {
  return std::find_if(pending_.begin(), pending_.end(), [](const Pending& pending) { return !pending.is_proved; });
}

TcpListener::Deadline TcpListener::next_accept(Deadline now) {
  if (pending_.size() < max_pending) return now;
  const auto oldest = oldest_unproved();
  return oldest != pending_.end() ? oldest->since + crowded_timeout : pending_.front().end;
}

/// Waits until a process connects, which it returns, or sends something, or a time limit has passed.
bool TcpListener::wait(std::span<const TcpSocket> known, Deadline deadline) {
  const Deadline now = TcpSocket::Clock::now();
  // poll ignores negative numbers.
  const bool can_accept = next_accept(now) <= now;
  if (!can_accept) deadline = std::min(deadline, next_accept(now));
  std::vector<pollfd> watched{{can_accept ? listening_.descriptor() : -1, POLLIN, 0}};
  for (const Pending& pending : pending_) {
    watched.push_back({pending.socket.descriptor(), POLLIN, 0});
    deadline = std::min(deadline, pending.end);
  }
  for (const TcpSocket& socket : known) watched.push_back({socket.descriptor(), POLLRDHUP, 0});
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - now);
  if (::poll(watched.data(), watched.size(), static_cast<int>(std::max<std::int64_t>(left.count(), 0))) < 0) {
    if (errno != EINTR) fail("poll: {}", std::strerror(errno));
    return false;
  }
  for (std::size_t p = 0; p < pending_.size(); ++p) pending_[p].is_readable = watched[1 + p].revents != 0;
  for (std::size_t p = 0; p < known.size(); ++p)
    if (watched[watched.size() - known.size() + p].revents != 0)
      fail<RankFailed>("rank {} disconnected during the rendezvous", p);
  return watched.front().revents != 0;
}

void TcpListener::accept() {
  for (;;) {
    const Deadline now = TcpSocket::Clock::now();
    if (next_accept(now) > now) return;
    TcpSocket socket = listening_.accept();
    if (!socket.is_open()) return;
    if (pending_.size() >= max_pending) {
      const auto oldest = oldest_unproved();
      pending_.erase(oldest != pending_.end() ? oldest : pending_.begin());
    }
    pending_.push_back({std::move(socket), now});
  }
}

}  // namespace heddle
